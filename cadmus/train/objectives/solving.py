"""The rates at which the model solves each template, for ``train.order: solving``; no term of the loss."""

from typing import Any

import numpy as np
import torch

from cadmus.config import TEMPLATES
from cadmus.train.batches import Batch, PackedBatch
from cadmus.train.objectives.objective import Objective, Outputs


class Solving(Objective):
    """Counts programs if each token of their completion is the likeliest, as if sampled greedily."""

    names = ("rates",)
    # Solved and all programs of each template.
    size = 2 * len(TEMPLATES)

    def loss(self, outputs: Outputs, packed: PackedBatch, batch: Batch, last: bool) -> float:
        assert packed.templates is not None
        wrong = (outputs.logits.argmax(1) != packed.targets.flatten()) & packed.completion_mask.flatten()
        mistakes = torch.zeros(len(packed.templates), dtype=torch.float64, device=self.device)
        # The padding, segment -1, has no mistakes.
        mistakes.index_add_(0, packed.segments.flatten().clamp(min=0), wrong.double())
        counts = torch.stack([(mistakes == 0).double(), torch.ones_like(mistakes)], 1)
        self.sums.view(-1, 2).index_add_(0, packed.templates, counts)
        return 0.0

    def metrics(self, step: int, sums: list[float], batch: Batch) -> dict[str, Any]:
        pairs = zip(TEMPLATES, np.reshape(sums, (-1, 2)).tolist(), strict=True)
        return {"rates": {name: solved / count if count else None for name, (solved, count) in pairs}}


OBJECTIVE = Solving
