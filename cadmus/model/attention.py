"""Implementations of attention, equal up to rounding; shape suffixes as in :mod:`cadmus.model.gpt`."""

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

Attend = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""Maps scaled queries (R, H, L, K), keys and values (R, H, S, K) and a bias (R, 1, L, S) to the attention
output (R, H, L, K)."""


def bias_of(visible_RLS: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the bias of the attention scores, (R, 1, L, S): 0 for visible tokens, -inf for others."""
    bias_RLS = torch.zeros_like(visible_RLS, dtype=dtype).masked_fill_(~visible_RLS, -math.inf)
    return bias_RLS[:, None]


def attention_weights(q_RHLK: Tensor, k_RHSK: Tensor, bias_R1LS: Tensor) -> Tensor:
    """Return the attention weights, (R, H, L, S)."""
    return (q_RHLK @ k_RHSK.mT + bias_R1LS).softmax(-1)


def attend_eager(q_RHLK: Tensor, k_RHSK: Tensor, v_RHSK: Tensor, bias_R1LS: Tensor) -> Tensor:
    """Attention by matrix products and a softmax."""
    return attention_weights(q_RHLK, k_RHSK, bias_R1LS) @ v_RHSK


def attend_sdpa(q_RHLK: Tensor, k_RHSK: Tensor, v_RHSK: Tensor, bias_R1LS: Tensor) -> Tensor:
    """Attention by PyTorch's fused kernel for any mask."""
    return F.scaled_dot_product_attention(q_RHLK, k_RHSK, v_RHSK, bias_R1LS, scale=1.0)


IMPLEMENTATIONS: dict[str, Attend] = {"cpu": attend_eager, "cuda": attend_sdpa}
"""The implementation for each type of device.

In rows of 64 tokens eager attention is several times faster on a CPU (``python -m dev.bench train``).  On a
GPU the memory-efficient kernel of SDPA is the only fused one that PyTorch documents for any mask and
precision.  Attention takes a few percent of the FLOPs in rows this short, and a kernel for ragged sequences
would compute as many tiles.
"""
