"""Objectives of a training step, each a term of the loss.

The step (:meth:`cadmus.train.loop.Training.train_step`) treats all of them alike. It calls
:meth:`~Objective.start` first, :meth:`~Objective.loss` for every micro-batch, and at the end
:meth:`~Objective.metrics` with :attr:`~Objective.sums`, by then added up over the ranks. Every training
predicts the next token; :class:`StateSupervision` and :class:`cadmus.train.verdict.Verdict` are optional.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cadmus import config, isa
from cadmus.model.gpt import GPT, initialize, last, visible
from cadmus.train.batches import Batch, PackedBatch
from cadmus.train.interchange import SCALE, Exchange, exchanged, normalized
from cadmus.train.labels import CLASSES, NO_TARGET, columns, state_outputs


class Outputs(NamedTuple):
    """Outputs of a model for a micro-batch, in fp32."""

    losses: Tensor
    """Shape (R * L,), the cross-entropy of each target, 0 where there is none."""
    state_logits: Tensor
    """Shape (R * L, columns * CLASSES + numbers), for state supervision; no columns without it."""


def forward(model: Callable[..., Tensor], packed: PackedBatch) -> Outputs:
    """Run a model, or the engine around it, on a micro-batch."""
    inputs = packed.tokens, packed.positions, packed.segments, *(packed.exchange or ())
    flat = model(*inputs).float().flatten(0, 1)
    # Split: two slices would add up two gradients that are mostly zero.
    sizes = [isa.VOCABULARY_SIZE, flat.shape[1] - isa.VOCABULARY_SIZE]
    logits, state_logits = torch.split(flat, sizes, 1)
    losses = F.cross_entropy(logits, packed.targets.flatten(), ignore_index=NO_TARGET, reduction="none")
    return Outputs(losses, state_logits)


class Objective:
    """A term of the loss; ``sums`` has ``size`` totals of the current step on this rank, in float64."""

    def __init__(self, size: int, ranks: int, device: torch.device) -> None:
        # DeepSpeed averages the gradients over the ranks, so losses are multiplied by their number.
        self.ranks, self.device = ranks, device
        self.sums = torch.zeros(size, dtype=torch.float64, device=device)

    def start(self, step: int) -> None:
        """Begin a step, counted from 0."""
        self.sums.zero_()

    def loss(self, outputs: Outputs, packed: PackedBatch, batch: Batch, last: bool) -> Tensor | float:
        """Return this term for a micro-batch; summed over the batch, it is the mean that is minimized."""
        raise NotImplementedError

    def metrics(self, step: int, sums: list[float], batch: Batch) -> dict[str, Any]:
        """Return this term's metrics of a step, from the sums over all ranks; ``flops`` are its own.

        By then, the next step may have been started.
        """
        raise NotImplementedError


class NextToken(Objective):
    """Predicts the next token; those in prompts weigh ``train.prompt_weight``."""

    def __init__(self, train: config.Train, ranks: int, device: torch.device) -> None:
        super().__init__(2, ranks, device)
        self._prompt_weight = train.prompt_weight

    def loss(self, outputs: Outputs, packed: PackedBatch, batch: Batch, last: bool) -> Tensor:
        prompt_weight, losses = self._prompt_weight, outputs.losses
        total, completion_total = losses.sum(), (losses * packed.completion_mask.flatten()).sum()
        self.sums[0] += total.detach()
        self.sums[1] += completion_total.detach()
        weight = batch.completion_targets + prompt_weight * (batch.targets - batch.completion_targets)
        weighted = prompt_weight * total + (1 - prompt_weight) * completion_total
        return weighted * (self.ranks / weight)

    def metrics(self, step: int, sums: list[float], batch: Batch) -> dict[str, Any]:
        total, completion_total = sums
        return {"loss": total / batch.targets, "completion_loss": completion_total / batch.completion_targets}


class StateSupervision(Objective):
    """Predicts the state of the VM after every token, see :mod:`cadmus.train.labels`."""

    def __init__(self, train: config.Train, ranks: int, device: torch.device) -> None:
        super().__init__(1, ranks, device)
        self._weight = train.state_weight
        self._columns = torch.tensor(columns(train.state_labels), device=device)
        self._numbers = torch.tensor([*train.state_labels.numbers().values()], device=device)

    def loss(self, outputs: Outputs, packed: PackedBatch, batch: Batch, last: bool) -> Tensor:
        assert packed.labels is not None
        sizes = [len(self._columns) * CLASSES, len(self._numbers)]
        logits, numbers = torch.split(outputs.state_logits, sizes, 1)
        losses = F.cross_entropy(
            logits.reshape(-1, CLASSES), packed.labels.flatten(), ignore_index=NO_TARGET, reduction="none"
        )
        total = (losses.view(len(logits), -1).sum(0) * self._columns).sum()
        if packed.numbers is not None:
            wanted = packed.numbers.flatten(0, 1)
            errors = F.smooth_l1_loss(SCALE * numbers, wanted.nan_to_num(), reduction="none") / 10
            total = total + (errors.where(~wanted.isnan(), 0).sum(0) * self._numbers).sum()
        self.sums[0] += total.detach()
        return total * (self.ranks * self._weight / batch.instructions)

    def metrics(self, step: int, sums: list[float], batch: Batch) -> dict[str, Any]:
        """Return the mean loss of the labels, those of a token summed by their weights."""
        return {"state_loss": sums[0] / batch.instructions}


class SupervisedGPT(GPT):
    """A GPT with linear layers that predict the labels of each token from the output of a block.

    ``lm_head_pair`` predicts the second number and the difference, ``lm_head_state`` all others.
    """

    def __init__(self, sizes: config.Model, train: config.Train) -> None:
        super().__init__(sizes)
        pair = [name for name in train.state_labels.numbers() if name != "magnitude"]
        self.state_layer = train.state_layer or max(1, sizes.layers - 2)
        self.pair_layer = train.pair_layer or max(1, sizes.layers - 1)
        self.lm_head_state = nn.Linear(sizes.width, state_outputs(train) - len(pair))
        self.lm_head_pair = nn.Linear(sizes.width, len(pair)) if pair else None
        self._interchange = train.interchange
        for head in filter(None, (self.lm_head_state, self.lm_head_pair)):
            initialize(head)

    def forward(
        self, tokens_RL: Tensor, positions_RL: Tensor, segments_RL: Tensor, *exchange: Tensor
    ) -> Tensor:
        """Return the logits of the next token, then what predicts the labels: shape (R, L, V + outputs).

        ``exchange`` are the fields of an :class:`Exchange`, which takes place after the labels are predicted.
        """
        predicted: list[Tensor] = []
        compared = self._interchange.variable == "comparison"

        def edit(layer: int, x_RLD: Tensor) -> Tensor:
            if layer == self.state_layer:
                predicted.insert(0, self.lm_head_state(normalized(x_RLD)))
            if layer == self.pair_layer and self.lm_head_pair is not None:
                predicted.append(self.lm_head_pair(normalized(x_RLD)))
            if exchange and layer == (self.pair_layer if compared else self.state_layer):
                # The magnitude is the last of its layer's outputs.
                head = self.lm_head_pair if compared else self.lm_head_state
                assert head is not None
                weight_CD = head.weight if compared else head.weight[-1:]
                return exchanged(x_RLD, weight_CD, self._interchange, Exchange(*exchange))
            return x_RLD

        x_RLD = last(self.residual_stream(tokens_RL, positions_RL, visible(segments_RL), edit=edit))
        return torch.cat([self.logits(x_RLD), *predicted], -1)
