"""The batch of a step, packed for this rank."""

import math
from typing import NamedTuple

import numpy as np
import torch

from cadmus import config
from cadmus.errors import InputError
from cadmus.model.flops import causal_pairs
from cadmus.programs import Samples
from cadmus.train.batches import Batches, TemplateBatches
from cadmus.train.labels import state_labels
from cadmus.train.order import Pace, weights
from cadmus.train.packing import PackedBatch, pack_batch


class Batch(NamedTuple):
    """The batch of a step: counts cover all ranks, the programs are those of this rank.

    Attributes:
        micro_batches: packed programs of this rank, on its device.
        tokens: tokens, end tokens included.
        pairs: pairs of a token and one that it attends to.
        targets: tokens to predict.
        completion_targets: targets in completions.
        weight: sum of the targets' loss weights.
        drawn: programs drawn of each template so far, this batch included; empty if all are mixed.
    """

    micro_batches: list[PackedBatch]
    tokens: int
    pairs: int
    targets: int
    completion_targets: int
    weight: float
    drawn: list[int]

    @property
    def fill(self) -> float:
        """Fraction of the rank's computed tokens that are not padding."""
        computed = sum(packed.tokens.numel() for packed in self.micro_batches)
        return sum(packed.token_count for packed in self.micro_batches) / computed


class Loader:
    """Prepares the batches of one rank.

    Args:
        training_set: the programs.
        seed: seed of the order of the programs.
        train: batch and micro-batch size, prompt weight, and order.
        row_length: tokens in a packed row.
        rank, ranks: index of this process, and number of processes.
        device: device of the batches; the CPU if None.
        counts: programs of each template, in the order of the training set; not needed if all are mixed.

    Raises:
        InputError: the repeated set would be the whole training set.
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
        counts: list[int] | None = None,
    ) -> None:
        self._programs, self._prompt_lengths = training_set.programs, training_set.prompt_length
        repeated, programs = train.repeated, len(self._programs)
        if repeated.fraction and repeated.programs >= programs:
            raise InputError(
                f"train.repeated.programs: must be fewer than the {programs:,} programs of the dataset, got "
                f"{repeated.programs:,}"
            )
        of_repeated = math.ceil(repeated.fraction * train.batch_size)
        self._batches = Batches(seed, programs, train.batch_size, repeated.programs, of_repeated)
        self._counts = np.array(counts or [programs])
        self._by_template = None
        if train.order != "mixed":
            self._by_template = TemplateBatches(seed, self._counts, train.batch_size)
        self._train = train
        self._row_length = row_length
        share = train.batch_size // ranks
        self._mine = slice(rank * share, (rank + 1) * share)
        self._micro_batches = share // (train.micro_batch_size or share)
        self._device = device or torch.device("cpu")

    def load(self, step: int, pace: Pace | None = None) -> Batch:
        """Return the batch of a step, counted from 0; ``pace`` is needed unless all templates are mixed."""
        drawn: list[int] = []
        if self._by_template is None:
            batch = self._batches.batch(step)
        else:
            assert pace is not None
            drawing = weights(self._train, self._counts, step, pace.errors)
            batch, drawn = self._by_template.draw(step, drawing, pace.drawn)
        offsets = self._programs.offsets
        lengths = offsets[batch + 1] - offsets[batch]
        targets = int(lengths.sum())
        pairs = int(causal_pairs(lengths + 1).sum())
        # The first instruction is not a target.
        completion_targets = targets - int(
            np.maximum(self._prompt_lengths[batch].astype(np.int64) - 1, 0).sum()
        )
        micro_batches = [
            self._pack(rows).to(self._device) for rows in np.split(batch[self._mine], self._micro_batches)
        ]
        weight = completion_targets + self._train.prompt_weight * (targets - completion_targets)
        return Batch(micro_batches, targets + len(batch), pairs, targets, completion_targets, weight, drawn)

    def _pack(self, rows: np.ndarray) -> PackedBatch:
        programs = self._programs.take(rows)
        labels = state_labels(programs, self._train.state_labels) if self._train.state_weight else None
        templates = None
        if self._train.order == "self_paced":
            templates = np.searchsorted(np.cumsum(self._counts), rows, "right")
        return pack_batch(programs, self._prompt_lengths[rows], self._row_length, labels, templates)
