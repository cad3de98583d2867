"""The model in training: a GPT with the heads of its objectives, which are not exported.

A head predicts something of each token from the output of an inner block. Besides, an objective may edit the
output of a block before the next one reads it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cadmus.config import Model
from cadmus.model.gpt import GPT, initialize, last

NOTHING: Mapping[str, Any] = {}


class Head(nn.Linear):
    """A linear layer on the normalized output of block ``layer``, 1 for the first."""

    def __init__(self, layer: int, width: int, outputs: int) -> None:
        super().__init__(width, outputs)
        self.layer = layer

    def forward(self, x_RLD: Tensor) -> Tensor:
        return super().forward(normalized(x_RLD))


Change = Callable[[int, Tensor, Mapping[str, Head], Any], Tensor]
"""Maps the number and the output of a block, (R, L, D), the heads, and what the batch has for it, to what the
next block reads."""


class BlockEdit(NamedTuple):
    """A change of the outputs of blocks, in batches with an entry ``name`` of ``PackedBatch.extras``."""

    name: str
    change: Change


class HeadedGPT(GPT):
    """A GPT with heads, whose outputs follow the logits, and edits, which see what the heads do."""

    def __init__(
        self, sizes: Model, heads: Callable[[], dict[str, Head]], edits: Sequence[BlockEdit] = ()
    ) -> None:
        super().__init__(sizes)
        # Their weights are drawn after those of the model, in two rounds.
        self.named_heads = heads()
        self.heads = nn.ModuleDict(self.named_heads)
        self.heads.apply(initialize)
        self._edits = edits

    def forward(
        self,
        tokens_RL: Tensor,
        positions_RL: Tensor,
        segments_RL: Tensor,
        extras: Mapping[str, Any] = NOTHING,
    ) -> Tensor:
        """Return the logits of the next token, then the outputs of the heads: shape (R, L, V + outputs)."""
        outputs: dict[str, Tensor] = {}
        edits = [edit for edit in self._edits if edit.name in extras]

        def edit_block(layer: int, x_RLD: Tensor) -> Tensor:
            for name, head in self.named_heads.items():
                if layer == head.layer:
                    outputs[name] = head(x_RLD)
            for edit in edits:
                x_RLD = edit.change(layer, x_RLD, self.named_heads, extras[edit.name])
            return x_RLD

        stream = self.residual_stream(tokens_RL, positions_RL, self.visible(segments_RL), edit=edit_block)
        x_RLD = last(stream)
        # In this order, whichever layer comes first.
        return torch.cat([self.logits(x_RLD), *(outputs[name] for name in self.named_heads)], -1)


def normalized(x: Tensor) -> Tensor:
    """Return states divided by their root mean square, as heads read them."""
    return F.rms_norm(x, x.shape[-1:])
