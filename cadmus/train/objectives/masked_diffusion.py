"""Masked diffusion, the objective of a model with full attention; its noise: :mod:`cadmus.train.masking`."""

from torch import Tensor

from cadmus.train.batches import Batch, PackedBatch
from cadmus.train.objectives.next_token import NextToken
from cadmus.train.objectives.objective import Outputs


class MaskedDiffusion(NextToken):
    """Restores the masked tokens of programs, and predicts the lengths of completions.

    Its metrics are upper bounds of what they are in a causal model: the loss per token, and that of
    completions.
    """

    def loss(self, outputs: Outputs, packed: PackedBatch, batch: Batch, last: bool) -> Tensor:
        assert packed.weights is not None
        losses = outputs.losses * packed.weights.flatten()
        total = losses.sum()
        self.sums[0] += total.detach()
        self.sums[1] += (losses * packed.completion_mask.flatten()).sum().detach()
        return total * (self.ranks / batch.targets)


OBJECTIVE = MaskedDiffusion
