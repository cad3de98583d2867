"""The batch of a step: its programs, packed for this rank, and the weight of their loss."""

from typing import NamedTuple

import numpy as np
import torch

from cadmus import config
from cadmus.programs import Samples
from cadmus.train.batches import Batches
from cadmus.train.packing import PackedBatch, pack_batch


class Batch(NamedTuple):
    """What a rank trains on in one step.

    Attributes:
        micro_batches: the rank's programs, packed, on its device.
        tokens: of all ranks, the ends included.
        pairs: of a token and one that it attends to, of all ranks.
        targets, completion_targets: tokens to predict, of all ranks: all of them, and those in completions.
        weight: of all these targets together.
    """

    micro_batches: list[PackedBatch]
    tokens: int
    pairs: int
    targets: int
    completion_targets: int
    weight: float

    @property
    def fill(self) -> float:
        """Fraction of the rank's computed tokens that are not padding."""
        computed = sum(packed.tokens.numel() for packed in self.micro_batches)
        return sum(packed.token_count for packed in self.micro_batches) / computed


class Loader:
    """Prepares the batches of one rank.

    Args:
        training_set: the programs.
        seed: of the order of the programs.
        train: gives the sizes of batches and micro-batches and the weight of prompts.
        row_length: tokens in a packed row.
        rank, ranks: of this process.
        device: that the batches are moved to.
    """

    def __init__(
        self,
        training_set: Samples,
        seed: int,
        train: config.Train,
        row_length: int,
        rank: int = 0,
        ranks: int = 1,
        device: torch.device | None = None,
    ) -> None:
        self._programs, self._prompt_lengths = training_set.programs, training_set.prompt_length
        self._batches = Batches(seed, len(self._programs), train.batch_size)
        self._train = train
        self._row_length = row_length
        share = train.batch_size // ranks
        self._mine = slice(rank * share, (rank + 1) * share)
        self._micro_batches = share // (train.micro_batch_size or share)
        self._device = device or torch.device("cpu")

    def load(self, step: int) -> Batch:
        """The batch of a step, counted from 0."""
        batch = self._batches.batch(step)
        offsets = self._programs.offsets
        lengths = offsets[batch + 1] - offsets[batch]
        targets = int(lengths.sum())
        pairs = int(((lengths + 1) * (lengths + 2) // 2).sum())
        # The first instruction is no target.
        completion_targets = targets - int(
            np.maximum(self._prompt_lengths[batch].astype(np.int64) - 1, 0).sum()
        )
        micro_batches = [
            pack_batch(self._programs.take(rows), self._prompt_lengths[rows], self._row_length).to(
                self._device
            )
            for rows in np.split(batch[self._mine], self._micro_batches)
        ]
        weight = completion_targets + self._train.prompt_weight * (targets - completion_targets)
        return Batch(micro_batches, targets + len(batch), pairs, targets, completion_targets, weight)
