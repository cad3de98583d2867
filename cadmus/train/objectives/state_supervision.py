"""State supervision: the model also predicts the state of the VM after every token.

:mod:`cadmus.train.labels` has the labels. Two heads predict them: ``pair`` the second number and the
difference, ``state`` all others.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from cadmus import config
from cadmus.train import NO_TARGET
from cadmus.train.heads import Head
from cadmus.train.labels import CLASSES, state_labels, state_outputs
from cadmus.train.loader import Batch
from cadmus.train.objectives.objective import Objective, Outputs, Setting
from cadmus.train.packing import PackedBatch, Supervision, Tokens

SCALE = 20.0
"""Integers per unit of an output for numbers, so that its weights are of the usual size."""
CLASS_LABELS, NUMBER_LABELS = "labels", "numbers"
"""Columns of a batch: int64 classes, and float32 numbers or NAN."""


class LabeledStates(Supervision):
    """Labels of every token of a batch."""

    def __init__(self, run: config.Config) -> None:
        self._labels, self._dataset = run.train.state_labels, run.dataset

    def annotate(self, tokens: Tokens) -> None:
        classes, numbers = state_labels(tokens.drawn.programs, self._labels, self._dataset)
        tokens.columns[CLASS_LABELS] = NO_TARGET, classes
        if numbers is not None:
            tokens.columns[NUMBER_LABELS] = float("nan"), numbers


class StateSupervision(Objective):
    """Predicts the labels of each token, weighted by ``train.state_labels`` and ``train.state_weight``."""

    names = ("state_loss",)
    size = 1
    fixed = True

    @classmethod
    def supervision(cls, run: config.Config, seed: int) -> Supervision:
        return LabeledStates(run)

    @classmethod
    def heads(cls, run: config.Config) -> dict[str, Head]:
        train, sizes = run.train, run.model
        pair = [name for name in train.state_labels.numbers() if name != "top_number"]
        heads = {"state": Head(max(1, sizes.layers - 2), sizes.width, state_outputs(train) - len(pair))}
        if pair:
            heads["pair"] = Head(max(1, sizes.layers - 1), sizes.width, len(pair))
        return heads

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        train = setting.run.train
        self._weight = train.state_weight
        self._top = train.state_labels.top
        self._numbers = torch.tensor([*train.state_labels.numbers().values()], device=self.device)

    def loss(self, outputs: Outputs, packed: PackedBatch, batch: Batch, last: bool) -> Tensor:
        # The number on top is the last output of its head, so all numbers are next to each other.
        predicted = torch.cat([outputs.heads[name] for name in ("state", "pair") if name in outputs.heads], 1)
        logits, numbers = torch.split(predicted, [CLASSES * (self._top > 0), len(self._numbers)], 1)
        total = torch.zeros((), device=self.device)
        if self._top:
            labels = packed.columns[CLASS_LABELS].flatten()
            losses = F.cross_entropy(logits, labels, ignore_index=NO_TARGET, reduction="none")
            total = self._top * losses.sum()
        if NUMBER_LABELS in packed.columns:
            values = packed.columns[NUMBER_LABELS].flatten(0, 1)
            # Linear beyond an error of 1, and a tenth: as large as the losses of classes.
            errors = F.smooth_l1_loss(SCALE * numbers, values.nan_to_num(), reduction="none") / 10
            total = total + (errors.where(~values.isnan(), 0).sum(0) * self._numbers).sum()
        self.sums[0] += total.detach()
        return total * (self.ranks * self._weight / batch.tokens)

    def metrics(self, step: int, sums: list[float], batch: Batch) -> dict[str, Any]:
        """Return the mean loss of the labels, those of a token summed by their weights."""
        return {"state_loss": sums[0] / batch.tokens}


OBJECTIVE = StateSupervision
