"""The batch of a step: which programs it has, packed into rows of one length.

The programs of a step are a function of the seed and the step alone, so a resumed training sees the same
ones: endless epochs, each a permutation of the training set, are cut into batches. Curricula and self-paced
training (:mod:`cadmus.train.order`) draw from epochs over each template instead, and need to know how many
programs they have drawn before.

Rows hold several programs each, longest first into the fullest row with room, which leaves next to no
padding. Attention stays within a program.
"""

import itertools
import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numba
import numpy as np
import torch
from torch import Tensor

from cadmus import config, isa
from cadmus.errors import InputError
from cadmus.model.flops import causal_pairs
from cadmus.model.tokens import TOKEN_OF_BYTE
from cadmus.programs import Programs, Samples
from cadmus.tools import epoch_seed, generator, seed_of
from cadmus.train.labels import NO_TARGET, state_labels
from cadmus.train.order import Pace, weights


class Batches:
    """The batches of a training: endless epochs over the programs, cut into steps.

    With a repeated set, a part of each batch comes from epochs over a few fixed programs, the rest from
    epochs over all others (two-set training, Charton and Kempe 2024, arXiv 2410.07041).

    Args:
        seed: of the permutations.
        programs: number of programs.
        batch_size: programs per step.
        repeated: number of programs in the repeated set, fewer than ``programs``.
        of_repeated: programs per step from the repeated set; 0 for epochs over all programs.
    """

    def __init__(
        self, seed: int, programs: int, batch_size: int, repeated: int = 0, of_repeated: int = 0
    ) -> None:
        if not of_repeated:
            self._parts = [(_Epochs(seed, range(programs)), batch_size)]
            return
        drawn = generator(seed, "repeated set").permutation(programs)
        parts = [(drawn[:repeated], of_repeated), (drawn[repeated:], batch_size - of_repeated)]
        self._parts = [(_Epochs(seed, np.sort(indices)), share) for indices, share in parts if share]

    def batch(self, step: int) -> np.ndarray:
        """Return the indices of the programs of a step, counted from 0: int64, shape (batch_size,)."""
        return np.concatenate([part.take(step * share, share) for part, share in self._parts])


class TemplateBatches:
    """Batches whose programs are drawn from each template with other weights in each step.

    Args:
        seed: of the permutations and of the draws.
        counts: number of programs of each template, all above 0; the programs are in this order.
        batch_size: programs per step.
    """

    def __init__(self, seed: int, counts: np.ndarray, batch_size: int) -> None:
        self._seed, self._batch_size = seed, batch_size
        bounds = itertools.pairwise([0, *np.cumsum(counts)])
        self._parts = [_Epochs(seed_of(seed, number), range(*within)) for number, within in enumerate(bounds)]

    def draw(self, step: int, weights: np.ndarray, drawn: list[int]) -> tuple[np.ndarray, list[int]]:
        """Return the indices of the programs of a step, and how many were drawn of each template after it.

        Args:
            step: counted from 0.
            weights: float64, shape (templates,), at least 0; need not sum to 1.
            drawn: programs drawn of each template before; each goes through epochs of its own.
        """
        rng = generator(self._seed, "templates", step)
        shares = rng.multinomial(self._batch_size, weights / weights.sum()).tolist()
        parts = zip(self._parts, drawn, shares, strict=True)
        indices = np.concatenate([part.take(start, share) for part, start, share in parts if share])
        return rng.permutation(indices), [a + b for a, b in zip(drawn, shares, strict=True)]


class _Epochs:
    """An endless sequence of epochs, each a permutation of ascending ``indices``.

    A range takes no memory beside the permutation of the epoch.
    """

    def __init__(self, seed: int, indices: np.ndarray | range) -> None:
        self._seed = seed
        self._indices = indices
        self._epochs: dict[int, np.ndarray] = {}

    def take(self, first: int, count: int) -> np.ndarray:
        """Return ``count`` elements of the sequence from ``first`` on: int64, shape (count,)."""
        epochs, within = np.divmod(first + np.arange(count), len(self._indices))
        indices = np.empty(count, np.int64)
        for epoch in range(epochs[0], epochs[-1] + 1):
            indices[epochs == epoch] = self._permutation(epoch)[within[epochs == epoch]]
        # Steps come in order, so earlier epochs are not needed again.
        self._epochs = {epochs[-1]: self._permutation(epochs[-1])}
        return indices

    def _permutation(self, epoch: int) -> np.ndarray:
        if epoch not in self._epochs:
            ascending = self._indices
            dtype = np.int32 if ascending[-1] < 2**31 else np.int64
            if isinstance(ascending, range):
                permutation = np.arange(ascending.start, ascending.stop, dtype=dtype)
            else:
                permutation = ascending.astype(dtype)
            np.random.default_rng(epoch_seed(self._seed, int(epoch))).shuffle(permutation)
            self._epochs[epoch] = permutation
        return self._epochs[epoch]


@dataclass(frozen=True)
class PackedBatch:
    """Programs, each with its end token, packed into R rows of L tokens.

    Attributes:
        tokens, positions, segments: int64, shape (R, L), for ``GPT.forward``; padding has segment -1.
        targets: int64, shape (R, L), the next token, or ``NO_TARGET`` after an end token and in the padding.
        completion_mask: bool, shape (R, L), True where the target belongs to a completion.
        programs: number of programs.
        target_count: number of targets.
        labels: int64, shape (R, L, columns), for state supervision, or ``NO_TARGET``; None without it.
        templates: int64, shape (programs,), the number of each program's template; None if not asked for.
    """

    tokens: Tensor
    positions: Tensor
    segments: Tensor
    targets: Tensor
    completion_mask: Tensor
    programs: int
    target_count: int
    labels: Tensor | None = None
    templates: Tensor | None = None

    def to(self, device: torch.device) -> "PackedBatch":
        """Return the batch on a device; a GPU copies it while it computes."""
        if device.type == "cpu":
            return self
        moved: dict[str, Any] = {
            name: value.pin_memory().to(device, non_blocking=True)
            for name, value in vars(self).items()
            if isinstance(value, Tensor)
        }
        return replace(self, **moved)

    @property
    def token_count(self) -> int:
        """Tokens that are not padding."""
        return self.target_count + self.programs

    @property
    def fill(self) -> float:
        """Fraction of the tokens that are not padding."""
        return self.token_count / self.tokens.numel()


class Batch(NamedTuple):
    """The batch of a step: counts cover all ranks, the programs are those of this rank.

    Attributes:
        micro_batches: packed programs of this rank, on its device.
        tokens: tokens, end tokens included.
        pairs: pairs of a token and one that it attends to.
        targets: tokens to predict.
        completion_targets: targets in completions.
        drawn: programs drawn of each template so far, this batch included; empty if all are mixed.
    """

    micro_batches: list[PackedBatch]
    tokens: int
    pairs: int
    targets: int
    completion_targets: int
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
        train: batch and micro-batch size, order, and state supervision.
        row_length: tokens in a packed row.
        rank, ranks: index of this process, and number of processes.
        device: device of the batches; the CPU if None.
        counts: programs of each template, in the order of the training set; not needed if all are mixed.
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
        self._counts = np.array(counts or [programs])
        self._mixed = self._by_template = None
        if train.order == "mixed":
            of_repeated = math.ceil(repeated.fraction * train.batch_size)
            self._mixed = Batches(seed, programs, train.batch_size, repeated.programs, of_repeated)
        else:
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
        if self._mixed is not None:
            batch = self._mixed.batch(step)
        else:
            assert self._by_template is not None
            assert pace is not None
            drawing = weights(self._train, self._counts, step, pace.errors)
            batch, drawn = self._by_template.draw(step, drawing, pace.drawn)
        offsets = self._programs.offsets
        lengths = offsets[batch + 1] - offsets[batch]
        targets = int(lengths.sum())
        # The first instruction is not a target.
        prompt_targets = np.maximum(self._prompt_lengths[batch].astype(np.int64) - 1, 0)
        return Batch(
            [self._pack(rows).to(self._device) for rows in np.split(batch[self._mine], self._micro_batches)],
            tokens=targets + len(batch),
            pairs=int(causal_pairs(lengths + 1).sum()),
            targets=targets,
            completion_targets=targets - int(prompt_targets.sum()),
            drawn=drawn,
        )

    def _pack(self, rows: np.ndarray) -> PackedBatch:
        programs = self._programs.take(rows)
        labels = state_labels(programs, self._train.state_labels) if self._train.state_weight else None
        templates = None
        if self._train.order == "self_paced":
            templates = np.searchsorted(np.cumsum(self._counts), rows, "right")
        return pack_batch(programs, self._prompt_lengths[rows], self._row_length, labels, templates)


def pack_batch(
    programs: Programs,
    prompt_lengths: np.ndarray,
    row_length: int,
    labels: np.ndarray | None = None,
    templates: np.ndarray | None = None,
) -> PackedBatch:
    """Pack n programs and their end tokens into rows.

    Args:
        programs: n programs.
        prompt_lengths: integers of shape (n,), instructions in the prompt of each.
        row_length: tokens in a row.
        labels: int64, shape (instructions, columns), for state supervision.
        templates: int64, shape (n,), the number of each program's template.
    """
    offsets = programs.offsets
    rows, columns, row_count = pack(programs.lengths + 1, row_length)
    shape = row_count, row_length
    source = TOKEN_OF_BYTE[programs.data]
    arrays = _arrange(source, offsets, prompt_lengths, rows, columns, shape, isa.END_ID)
    tokens, positions, segments, targets, completion_mask = map(torch.from_numpy, arrays)
    packed_labels = None
    if labels is not None:
        # Every instruction has a target after it: the next one, or the end.
        packed_labels = torch.full((*shape, labels.shape[1]), NO_TARGET)
        starts = rows * row_length + columns - offsets[:-1]
        places = np.repeat(starts, np.diff(offsets)) + np.arange(offsets[-1])
        packed_labels.flatten(0, 1)[torch.from_numpy(places)] = torch.from_numpy(labels)
    return PackedBatch(
        tokens,
        positions,
        segments,
        targets,
        completion_mask,
        programs=len(programs),
        target_count=int(programs.lengths.sum()),
        labels=packed_labels,
        templates=None if templates is None else torch.from_numpy(templates),
    )


def pack(lengths: np.ndarray, row_length: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Pack by best-fit decreasing: the longest piece first, each into the fullest row that has room for it.

    Returns:
        Row and first column of each piece, int64 of shape (n,), and the number of rows.
    """
    if lengths.max(initial=0) > row_length:
        raise ValueError(f"a program needs {lengths.max()} tokens, a row has {row_length}")
    return _best_fit(np.argsort(-lengths, kind="stable"), lengths, row_length)


@numba.njit(cache=True)
def _best_fit(
    order: np.ndarray, lengths: np.ndarray, row_length: int
) -> tuple[np.ndarray, np.ndarray, int]:  # pragma: no cover - compiled
    rows = np.empty(len(lengths), np.int64)
    columns = np.empty(len(lengths), np.int64)
    room = np.empty(len(lengths), np.int64)
    count = 0
    for piece in order:
        best = -1
        for row in range(count):
            if room[row] >= lengths[piece] and (best < 0 or room[row] < room[best]):
                best = row
                if room[row] == lengths[piece]:
                    break
        if best < 0:
            best = count
            room[best] = row_length
            count += 1
        rows[piece] = best
        columns[piece] = row_length - room[best]
        room[best] -= lengths[piece]
    return rows, columns, count


@numba.njit(cache=True)
def _arrange(
    source: np.ndarray,
    offsets: np.ndarray,
    prompt_lengths: np.ndarray,
    rows: np.ndarray,
    columns: np.ndarray,
    shape: tuple[int, int],
    end: int,
) -> tuple[np.ndarray, ...]:  # pragma: no cover - compiled
    tokens, positions = np.full(shape, end), np.zeros(shape, np.int64)
    segments, targets = np.full(shape, -1), np.full(shape, NO_TARGET)
    completion_mask = np.zeros(shape, np.bool_)
    for i in range(len(rows)):
        row, length = rows[i], offsets[i + 1] - offsets[i]
        for k in range(length + 1):
            column = columns[i] + k
            token = source[offsets[i] + k] if k < length else end
            tokens[row, column] = token
            positions[row, column] = k
            segments[row, column] = i
            if k > 0:
                targets[row, column - 1] = token
                completion_mask[row, column - 1] = k >= prompt_lengths[i]
    return tokens, positions, segments, targets, completion_mask
