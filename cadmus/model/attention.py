"""Forms of attention between the tokens of a program, several of which share a row: equal but for rounding.

Which is fastest depends on the device; ``cadmus bench train`` compares them.  The shape suffixes are those of
:mod:`cadmus.model.gpt`.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

Attend = Callable[[Tensor, Tensor, Tensor, Any], Tensor]
"""Queries that are scaled already, keys, values and what is seen of them in; what is attended to, shape
(R, H, L, K), out."""


class Form(NamedTuple):
    """A form of attention.

    Attributes:
        prepare: what each token sees, made once for all blocks from the positions and segments of packed
            rows, both of shape (R, L), and the type of the activations.
        attend: the attention itself, with what ``prepare`` made.
    """

    prepare: Callable[[Tensor, Tensor, torch.dtype], Any]
    attend: Attend


def bias_of(visible_RLS: Tensor, dtype: torch.dtype) -> Tensor:
    """What is added to the products of queries and keys when each token sees what it may: (R, 1, L, S)."""
    bias_RLS = torch.zeros_like(visible_RLS, dtype=dtype).masked_fill_(~visible_RLS, -math.inf)
    return bias_RLS[:, None]


def bias_of_rows(positions_RL: Tensor, segments_RL: Tensor, dtype: torch.dtype) -> Tensor:
    """The same where each token sees those before it of its own program, and itself."""
    same_RLL = segments_RL[:, :, None] == segments_RL[:, None, :]
    return bias_of(same_RLL.tril(), dtype)


def shares(q_RHLK: Tensor, k_RHSK: Tensor, bias_R1LS: Tensor) -> Tensor:
    """How much each token attends to each, shape (R, H, L, S)."""
    return (q_RHLK @ k_RHSK.mT + bias_R1LS).softmax(-1)


def attend_written_out(q_RHLK: Tensor, k_RHSK: Tensor, v_RHSK: Tensor, bias_R1LS: Tensor) -> Tensor:
    """As in the formula; on a CPU and in short rows several times faster than the fused one."""
    return shares(q_RHLK, k_RHSK, bias_R1LS) @ v_RHSK


def attend_fused(q_RHLK: Tensor, k_RHSK: Tensor, v_RHSK: Tensor, bias_R1LS: Tensor) -> Tensor:
    """The same by PyTorch's fused kernel."""
    return F.scaled_dot_product_attention(q_RHLK, k_RHSK, v_RHSK, bias_R1LS, scale=1.0)


def starts_of_programs(positions_RL: Tensor, segments_RL: Tensor, dtype: torch.dtype) -> Tensor:
    """Where the programs begin in all rows laid end to end, and where the last ends: int32.

    In the padding, where all positions are 0, each token is a program of its own.
    """
    starts = (positions_RL.flatten() == 0).nonzero().flatten()
    return F.pad(starts, (0, 1), value=positions_RL.numel()).int()


def attend_variable(q_RHLK: Tensor, k_RHLK: Tensor, v_RHLK: Tensor, starts: Tensor) -> Tensor:
    """By the flash kernel for sequences of unlike lengths, which takes the programs one by one; on GPUs, in
    16 bits."""
    from torch.nn.attention.varlen import varlen_attn

    rows, _, length, _ = q_RHLK.shape
    q_THK, k_THK, v_THK = (x.transpose(1, 2).flatten(0, 1) for x in (q_RHLK, k_RHLK, v_RHLK))
    out_THK = varlen_attn(q_THK, k_THK, v_THK, starts, starts, length, length, scale=1.0, window_size=(-1, 0))
    assert isinstance(out_THK, Tensor)
    return out_THK.reshape(rows, length, *out_THK.shape[1:]).transpose(1, 2)


def blocks_of_rows(positions_RL: Tensor, segments_RL: Tensor, dtype: torch.dtype) -> Any:
    """The mask of :func:`bias_of_rows` as FlexAttention has it."""
    from torch.nn.attention.flex_attention import create_block_mask

    def seen(row: Tensor, head: Tensor, token: Tensor, other: Tensor) -> Tensor:
        return (segments_RL[row, token] == segments_RL[row, other]) & (other <= token)

    rows, length = segments_RL.shape
    return create_block_mask(seen, rows, None, length, length, device=str(segments_RL.device))


def attend_flex(q_RHLK: Tensor, k_RHLK: Tensor, v_RHLK: Tensor, blocks: Any) -> Tensor:
    """By FlexAttention, which makes a kernel for the mask when it is compiled; it trains on GPUs only."""
    from torch.nn.attention.flex_attention import flex_attention

    out_RHLK = flex_attention(q_RHLK, k_RHLK, v_RHLK, block_mask=blocks, scale=1.0)
    assert isinstance(out_RHLK, Tensor)
    return out_RHLK


WRITTEN_OUT = Form(bias_of_rows, attend_written_out)
FUSED = Form(bias_of_rows, attend_fused)
VARIABLE = Form(starts_of_programs, attend_variable)
FLEX = Form(blocks_of_rows, attend_flex)


def masked_form(device: torch.device) -> Form:
    """The form with a bias, for any rule of who sees whom, that is fastest on a device."""
    return WRITTEN_OUT if device.type == "cpu" else FUSED
