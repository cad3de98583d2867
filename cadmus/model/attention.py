"""Forms of attention within the programs that share a row; equal up to rounding.

The shape suffixes are those of :mod:`cadmus.model.gpt`.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

Attend = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""Takes scaled queries (R, H, L, K), keys and values (R, H, S, K) and a bias (R, 1, L, S); returns the
attention output (R, H, L, K)."""


def bias_of(visible_RLS: Tensor, dtype: torch.dtype) -> Tensor:
    """The bias of the attention scores, 0 where a token may look and -inf elsewhere: (R, 1, L, S)."""
    bias_RLS = torch.zeros_like(visible_RLS, dtype=dtype).masked_fill_(~visible_RLS, -math.inf)
    return bias_RLS[:, None]


def bias_of_rows(segments_RL: Tensor, dtype: torch.dtype) -> Tensor:
    """The bias with which each token sees itself and the earlier tokens of its program: (R, 1, L, L)."""
    same_RLL = segments_RL[:, :, None] == segments_RL[:, None, :]
    return bias_of(same_RLL.tril(), dtype)


def attention_weights(q_RHLK: Tensor, k_RHSK: Tensor, bias_R1LS: Tensor) -> Tensor:
    """Attention weights of each token over the tokens it sees: (R, H, L, S)."""
    return (q_RHLK @ k_RHSK.mT + bias_R1LS).softmax(-1)


def attend_written_out(q_RHLK: Tensor, k_RHSK: Tensor, v_RHSK: Tensor, bias_R1LS: Tensor) -> Tensor:
    """Attention as in the formula."""
    return attention_weights(q_RHLK, k_RHSK, bias_R1LS) @ v_RHSK


def attend_fused(q_RHLK: Tensor, k_RHSK: Tensor, v_RHSK: Tensor, bias_R1LS: Tensor) -> Tensor:
    """Attention by PyTorch's fused kernel for arbitrary masks."""
    return F.scaled_dot_product_attention(q_RHLK, k_RHSK, v_RHSK, bias_R1LS, scale=1.0)


FORMS: dict[str, Attend] = {"cpu": attend_written_out, "cuda": attend_fused}
"""The form for each type of device.

In rows of 64 tokens the formula is several times faster on a CPU than the fused kernel (``cadmus bench
train``).  On a GPU, Hopper included, the memory-efficient kernel is the only fused one that PyTorch documents
for any mask and precision; in rows this short attention takes a few percent of the FLOPs, and a kernel for
sequences of unlike lengths would compute as many tiles.
"""


def form_of(device: torch.device) -> Attend:
    """The form of attention for a device."""
    return FORMS["cuda" if device.type == "cuda" else "cpu"]
