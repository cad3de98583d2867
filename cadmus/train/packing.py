"""The packing of a batch: programs of any length in rows of one length, with next to no padding.

Each row holds several programs, longest first into the fullest row with room. Attention stays within a
program. What an objective needs besides the next token, its :class:`Supervision` adds on the way.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from cadmus import isa
from cadmus.programs import TOKEN_OF_BYTE, Programs
from cadmus.train import NO_TARGET


@dataclass(frozen=True)
class Drawn:
    """The n programs of a step over all ranks, or of one of its micro-batches."""

    programs: Programs
    prompt_lengths: np.ndarray
    """int64, shape (n,)."""
    targets: np.ndarray
    """Tokens to predict, none if it is 0: int64, shape (n,)."""
    completion_targets: np.ndarray
    """Those of them in the completion: int64, shape (n,)."""
    step: int = 0
    """Counted from 0."""
    micro_batch: int = 0
    """Counted from 0 over all ranks."""
    columns: dict[str, Any] = field(default_factory=dict)
    """More about each program, by objectives: arrays of n rows, or :class:`Programs`."""

    @classmethod
    def of(cls, programs: Programs, prompt_lengths: np.ndarray, step: int = 0) -> "Drawn":
        """Return programs whose every next token is a target: not the first instruction, but the end."""
        prompt_lengths = np.asarray(prompt_lengths, np.int64)
        completion_targets = programs.lengths - np.maximum(prompt_lengths - 1, 0)
        return cls(programs, prompt_lengths, programs.lengths, completion_targets, step)

    def take(self, rows: np.ndarray, micro_batch: int = 0) -> "Drawn":
        """Return some of the programs, as a micro-batch."""
        return replace(
            self,
            programs=self.programs.take(rows),
            prompt_lengths=self.prompt_lengths[rows],
            targets=self.targets[rows],
            completion_targets=self.completion_targets[rows],
            micro_batch=micro_batch,
            columns={
                name: column.take(rows) if isinstance(column, Programs) else column[rows]
                for name, column in self.columns.items()
            },
        )


@dataclass
class Tokens:
    """The T tokens of a micro-batch, those of all programs in a row, while they are packed.

    All arrays have the shape (T,), integers are int64.
    """

    drawn: Drawn
    program: np.ndarray
    """Number of its program."""
    position: np.ndarray
    """In its program."""
    index: np.ndarray
    """In the rows of the batch, one after the other."""
    token: np.ndarray
    target: np.ndarray
    segment: np.ndarray
    """As :meth:`cadmus.model.gpt.GPT.visible` takes it."""
    completing: np.ndarray
    """bool: the target is in the completion."""
    columns: dict[str, tuple[float, np.ndarray]] = field(default_factory=dict)
    """More about each token: what the padding has, and an array of shape (T, ...)."""
    extras: dict[str, Any] = field(default_factory=dict)
    """Tensors for the model that do not have a row per token, or named tuples of them."""


class Supervision:
    """Additions of an objective to each batch; a rank, or its workers, call it on the CPU."""

    def added(self, programs: int) -> int:
        """Return how many of the programs of a step it adds."""
        return 0

    def draw(self, drawn: Drawn) -> Drawn:
        """Return the programs of a step, over all ranks, with those that it adds or changes."""
        return drawn

    def annotate(self, tokens: Tokens) -> None:
        """Change tokens, targets or segments of a micro-batch, or add columns and extras."""


@dataclass(frozen=True)
class PackedBatch:
    """Programs packed into R rows of L tokens."""

    tokens: Tensor
    positions: Tensor
    segments: Tensor
    """int64, shape (R, L), as :meth:`cadmus.model.gpt.GPT.visible` takes them; padding has segment -1."""
    targets: Tensor
    """int64, shape (R, L), the next token, after the last instruction the end; in programs without targets
    and in the padding :data:`cadmus.train.NO_TARGET`."""
    completion_mask: Tensor
    """bool, shape (R, L), True where the target belongs to a completion."""
    token_count: int
    """Tokens that are not padding."""
    columns: dict[str, Tensor] = field(default_factory=dict)
    """More about each token, by objectives: shape (R, L, ...)."""
    extras: dict[str, Any] = field(default_factory=dict)
    """As in :class:`Tokens`."""

    def to(self, device: torch.device) -> "PackedBatch":
        """Return the batch on a device; a GPU copies it while it computes."""
        if device.type == "cpu":
            return self

        def moved(value: Any) -> Any:
            if isinstance(value, Tensor):
                return value.pin_memory().to(device, non_blocking=True)
            if isinstance(value, dict):
                return {name: moved(each) for name, each in value.items()}
            return type(value)(*map(moved, value)) if isinstance(value, tuple) else value

        return PackedBatch(**{name: moved(value) for name, value in vars(self).items()})


def pack_batch(
    drawn: Drawn, row_length: int, supervisions: Sequence[Supervision] = (), least_rows: int = 0
) -> PackedBatch:
    """Pack programs, the first at the start of their data, into rows, ``least_rows`` or more."""
    programs, lengths = drawn.programs, drawn.programs.lengths
    rows, columns, row_count = pack(lengths, row_length)
    row_count = max(row_count, least_rows)
    program = np.repeat(np.arange(len(lengths)), lengths)
    position = np.arange(len(program)) - np.repeat(programs.offsets[:-1], lengths)
    token = TOKEN_OF_BYTE[programs.data].astype(np.int64)
    target = np.append(token[1:], isa.END_ID)
    target[programs.offsets[1:] - 1] = isa.END_ID
    target[drawn.targets[program] == 0] = NO_TARGET
    tokens = Tokens(
        drawn,
        program,
        position,
        index=(rows * row_length + columns)[program] + position,
        token=token,
        target=target,
        segment=program,
        completing=position + 1 >= drawn.prompt_lengths[program],
    )
    for supervision in supervisions:
        supervision.annotate(tokens)

    def arrange(padding: float, values: np.ndarray) -> Tensor:
        shape = values.shape[1:]
        arranged = np.full((row_count * row_length, *shape), padding, values.dtype)
        arranged[tokens.index] = values
        return torch.from_numpy(arranged.reshape(row_count, row_length, *shape))

    return PackedBatch(
        tokens=arrange(isa.END_ID, tokens.token),
        positions=arrange(0, position),
        segments=arrange(-1, tokens.segment),
        targets=arrange(NO_TARGET, tokens.target),
        completion_mask=arrange(False, tokens.completing),
        token_count=len(token),
        columns={name: arrange(*column) for name, column in tokens.columns.items()},
        extras=tokens.extras,
    )


def pack(lengths: np.ndarray, row_length: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Pack by best-fit decreasing: the longest piece first, each into the fullest row that has room for it.

    Returns the row and the first column of each piece, int64 of shape (n,), and the number of rows.
    """
    if lengths.max(initial=0) > row_length:
        raise ValueError(f"a program needs {lengths.max()} tokens, a row has {row_length}")
    return _best_fit(np.argsort(-lengths, kind="stable"), lengths, row_length)


@numba.njit(cache=True, nogil=True)
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
