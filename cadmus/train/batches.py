"""The batch of a step: which programs it has, packed into rows of one length.

The programs of a step are a function of the seed and the step alone, so a resumed training sees the same
ones: endless epochs, each a permutation of the training set, are cut into batches.

Rows hold several programs each, longest first into the fullest row with room, which leaves next to no
padding. Attention stays within a program.
"""

import functools
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numba
import numpy as np
import torch
from torch import Tensor

from cadmus import config, isa
from cadmus.model.flops import causal_pairs
from cadmus.programs import TOKEN_OF_BYTE, Programs, Samples
from cadmus.tools import epoch_seed
from cadmus.train.labels import NO_TARGET, state_labels


def programs_of(step: int, seed: int, programs: int, batch_size: int) -> np.ndarray:
    """Return the indices of the programs of a step, counted from 0: int64, shape (batch_size,)."""
    epochs, within = np.divmod(step * batch_size + np.arange(batch_size), programs)
    indices = np.empty(batch_size, np.int64)
    for epoch in range(int(epochs[0]), int(epochs[-1]) + 1):
        indices[epochs == epoch] = _permutation(epoch, seed, programs)[within[epochs == epoch]]
    return indices


# Steps come in order, so earlier epochs are not needed again.
@functools.lru_cache(maxsize=1)
def _permutation(epoch: int, seed: int, programs: int) -> np.ndarray:
    permutation = np.arange(programs, dtype=np.int32 if programs <= 2**31 else np.int64)
    np.random.default_rng(epoch_seed(seed, epoch)).shuffle(permutation)
    return permutation


@dataclass(frozen=True)
class PackedBatch:
    """Programs, each with its end token, packed into R rows of L tokens.

    Attributes:
        tokens, positions, segments: int64, shape (R, L), for ``GPT.forward``; padding has segment -1.
        targets: int64, shape (R, L), the next token, or ``NO_TARGET`` after an end token and in the padding.
        completion_mask: bool, shape (R, L), True where the target belongs to a completion.
        labels: int64, shape (R, L, columns), for state supervision, or ``NO_TARGET``; None without it.
    """

    tokens: Tensor
    positions: Tensor
    segments: Tensor
    targets: Tensor
    completion_mask: Tensor
    programs: int
    target_count: int
    labels: Tensor | None = None

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


class Batch(NamedTuple):
    """The batch of a step: counts cover all ranks, the micro-batches are those of this rank.

    Attributes:
        tokens: end tokens included.
        pairs: of a token and one that it attends to.
        targets, completion_targets: tokens to predict, and those of them in completions.
    """

    micro_batches: list[PackedBatch]
    tokens: int
    pairs: int
    targets: int
    completion_targets: int

    @property
    def fill(self) -> float:
        """Fraction of the rank's computed tokens that are not padding."""
        computed = sum(packed.tokens.numel() for packed in self.micro_batches)
        return sum(packed.token_count for packed in self.micro_batches) / computed


class Loader:
    """Prepares the batches of one rank; the order of the programs depends on ``seed``."""

    def __init__(
        self,
        training_set: Samples,
        seed: int,
        train: config.Train,
        row_length: int,
        rank: int = 0,
        ranks: int = 1,
        device: torch.device = torch.device("cpu"),  # noqa: B008 - immutable
    ) -> None:
        self._programs, self._prompt_lengths = training_set.programs, training_set.prompt_length
        self._seed, self._train = seed, train
        self._row_length = row_length
        of_rank = train.batch_size // ranks // (train.micro_batch_size or train.batch_size // ranks)
        self._micro_batches = ranks * of_rank
        self._mine = slice(rank * of_rank, (rank + 1) * of_rank)
        self._device = device

    def load(self, step: int) -> Batch:
        """Return the batch of a step, counted from 0."""
        batch = programs_of(step, self._seed, len(self._programs), self._train.batch_size)
        offsets = self._programs.offsets
        lengths = offsets[batch + 1] - offsets[batch]
        targets = int(lengths.sum())
        # The first instruction is not a target.
        prompt_targets = np.maximum(self._prompt_lengths[batch].astype(np.int64) - 1, 0)
        mine = deal(batch, lengths, self._micro_batches)[self._mine]
        return Batch(
            [self._pack(rows).to(self._device) for rows in mine],
            tokens=targets + len(batch),
            pairs=int(causal_pairs(lengths + 1).sum()),
            targets=targets,
            completion_targets=targets - int(prompt_targets.sum()),
        )

    def _pack(self, rows: np.ndarray) -> PackedBatch:
        programs = self._programs.take(rows)
        labels = state_labels(programs, self._train.state_labels) if self._train.state_weight else None
        return pack_batch(programs, self._prompt_lengths[rows], self._row_length, labels)


def deal(batch: np.ndarray, lengths: np.ndarray, parts: int) -> np.ndarray:
    """Deal programs to parts with almost as many tokens each, as ranks wait for each other in every step.

    Returns the elements of ``batch``, shape (parts, programs of a part): by length, back and forth.
    """
    dealt = batch[np.argsort(lengths, kind="stable")].reshape(-1, parts)
    dealt[1::2] = dealt[1::2, ::-1]
    return dealt.T


def pack_batch(
    programs: Programs,
    prompt_lengths: np.ndarray,
    row_length: int,
    labels: np.ndarray | None = None,
) -> PackedBatch:
    """Pack n programs, the first at the start of their data, and their end tokens into rows.

    ``prompt_lengths`` are integers of shape (n,). ``labels``, for state supervision, are int64 of shape
    (instructions, columns).
    """
    lengths = programs.lengths + 1
    rows, columns, row_count = pack(lengths, row_length)
    # Of each token: the program, its position in it, and its place in the rows.
    program = np.repeat(np.arange(len(lengths)), lengths)
    position = np.arange(len(program)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    place = (rows * row_length + columns)[program] + position
    # Every instruction has a target after it: the next one, or the end.
    has_target = position < (lengths - 1)[program]
    token = np.full(len(program), isa.END_ID, np.int64)
    token[has_target] = TOKEN_OF_BYTE[programs.data]

    def arrange(padding: int, values: np.ndarray, places: np.ndarray) -> Tensor:
        shape = values.shape[1:]
        arranged = np.full((row_count * row_length, *shape), padding, values.dtype)
        arranged[places] = values
        return torch.from_numpy(arranged.reshape(row_count, row_length, *shape))

    targeted = place[has_target]
    completing = (position + 1 >= np.asarray(prompt_lengths)[program])[has_target]
    return PackedBatch(
        tokens=arrange(isa.END_ID, token, place),
        positions=arrange(0, position, place),
        segments=arrange(-1, program, place),
        targets=arrange(NO_TARGET, token[1:][has_target[:-1]], targeted),
        completion_mask=arrange(False, completing, targeted),
        programs=len(programs),
        target_count=len(targeted),
        labels=None if labels is None else arrange(NO_TARGET, labels, targeted),
    )


def pack(lengths: np.ndarray, row_length: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Pack by best-fit decreasing: the longest piece first, each into the fullest row that has room for it.

    Returns the row and the first column of each piece, int64 of shape (n,), and the number of rows.
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
