"""The base class of objectives, and the outputs of the model that they get for a micro-batch."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from cadmus import config, isa
from cadmus.programs import Samples
from cadmus.train import NO_TARGET
from cadmus.train.data import ReadSplit
from cadmus.train.heads import BlockEdit, Head
from cadmus.train.loader import Batch
from cadmus.train.order import Order
from cadmus.train.packing import PackedBatch, Supervision
from cadmus.train.ranks import Place


class Setting(NamedTuple):
    """A training, as its objectives see it."""

    run: config.Config
    place: Place
    engine: Any
    """DeepSpeed's engine around the model."""
    read: ReadSplit
    """Reads training programs."""
    seed: int
    log: Callable[[str], None]
    """Takes lines for the user."""


class Outputs(NamedTuple):
    """Outputs of a model for a micro-batch of R rows of L tokens, in fp32."""

    logits: Tensor
    """Shape (R * L, V), of the next token."""
    states: Tensor
    """Shape (R * L, D), the output of the last block, in the precision of the training."""
    losses: Tensor
    """Shape (R * L,), the cross-entropy of each target, 0 where there is none."""
    heads: dict[str, Tensor]
    """Shape (R * L, outputs) each, of the heads by name."""


def forward(model: Any, packed: PackedBatch) -> Outputs:
    """Run a model, or the engine around it, on a micro-batch."""
    inputs = packed.tokens, packed.positions, packed.segments
    module = getattr(model, "module", model)
    states: list[Tensor] = []
    # The last layers take the output of the last block, which the model itself does not return.
    hook = module.final_layer_norm.register_forward_pre_hook(lambda _, given: states.append(given[0]))
    flat = model(*inputs, **({"extras": packed.extras} if packed.extras else {})).float().flatten(0, 1)
    hook.remove()
    heads = getattr(module, "named_heads", {})
    # Split: slices would add up gradients that are mostly zero.
    sizes = [isa.VOCABULARY_SIZE, *(head.out_features for head in heads.values())]
    logits, *predicted = torch.split(flat, sizes, 1)
    losses = F.cross_entropy(logits, packed.targets.flatten(), ignore_index=NO_TARGET, reduction="none")
    return Outputs(logits, states[0].flatten(0, 1), losses, dict(zip(heads, predicted, strict=True)))


class Objective:
    """A term of the loss, or something else that a training does at each of its steps.

    The class methods are asked before there is a model: what the objective adds to the batches, to the model,
    and to the order of the programs. A step calls :meth:`start` first, :meth:`loss` for every micro-batch,
    and at the end :meth:`metrics` with :attr:`sums`, by then added up over the ranks.
    """

    names: tuple[str, ...] = ()
    """Of its metrics, which are null at steps for which :meth:`metrics` does not return them."""
    size: int = 0
    """Of :attr:`sums`."""
    fixed: bool = False
    """Its loss is the same operations at each step, which only read the batch and its counts, so that a CUDA
    graph can have them."""

    @classmethod
    def supervision(cls, run: config.Config, seed: int) -> Supervision | None:
        """Return what the objective adds to the batches of a training."""
        return None

    @classmethod
    def heads(cls, run: config.Config) -> dict[str, Head]:
        """Return its heads by name; drawing their weights consumes random numbers."""
        return {}

    @classmethod
    def edit(cls, run: config.Config) -> BlockEdit | None:
        """Return its change of the outputs of blocks."""
        return None

    @classmethod
    def order(cls, run: config.Config, training_set: Samples, seed: int) -> Order | None:
        """Return its order of the training programs."""
        return None

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        # DeepSpeed averages the gradients over the ranks, so losses are multiplied by their number.
        _, self.ranks, self.device = setting.place
        self.sums = torch.zeros(self.size, dtype=torch.float64, device=self.device)
        """Totals of the current step on this rank."""

    def start(self, step: int) -> None:
        """Begin a step, counted from 0."""
        self.sums.zero_()

    def loss(self, outputs: Outputs, packed: PackedBatch, batch: Batch, last: bool) -> Tensor | float:
        """Return this term for a micro-batch; summed over the batch, it is the mean that is minimized."""
        return 0.0

    def metrics(self, step: int, sums: list[float], batch: Batch) -> dict[str, Any]:
        """Return this term's metrics of a step, from the sums over all ranks; ``flops`` are its own.

        By then, the next step may have been started.
        """
        return {}
