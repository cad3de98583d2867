"""Prediction of the next token, the objective of every training."""

from typing import Any

from torch import Tensor

from cadmus.train.loader import Batch
from cadmus.train.objectives.objective import Objective, Outputs
from cadmus.train.packing import PackedBatch


class NextToken(Objective):
    """Predicts the next token; those in prompts weigh ``train.prompt_weight``."""

    names = ("loss", "completion_loss")
    size = 2
    fixed = True

    def loss(self, outputs: Outputs, packed: PackedBatch, batch: Batch, last: bool) -> Tensor:
        prompt_weight, losses = self.setting.run.train.prompt_weight, outputs.losses
        total, completion_total = losses.sum(), (losses * packed.completion_mask.flatten()).sum()
        self.sums[0] += total.detach()
        self.sums[1] += completion_total.detach()
        weight = batch.completion_targets + prompt_weight * (batch.targets - batch.completion_targets)
        weighted = prompt_weight * total + (1 - prompt_weight) * completion_total
        return weighted * (self.ranks / weight)

    def metrics(self, step: int, sums: list[float], batch: Batch) -> dict[str, Any]:
        total, completion_total = sums
        return {"loss": total / batch.targets, "completion_loss": completion_total / batch.completion_targets}


OBJECTIVE = NextToken
