"""Packing of programs into rows of one length, with next to no padding."""

from dataclasses import dataclass, replace
from typing import Any

import numba
import numpy as np
import torch

from cadmus import isa
from cadmus.model.tokens import TOKEN_OF_BYTE
from cadmus.programs import Programs
from cadmus.train.labels import NO_TARGET


@dataclass(frozen=True)
class PackedBatch:
    """Programs, each with its end token, packed into R rows of L tokens.

    Attributes:
        tokens, positions, segments: int64, shape (R, L), for ``GPT.forward``; padding has segment -1.
        targets: int64, shape (R, L), the next token, or ``NO_TARGET`` after an end token and in the padding.
        completion_mask: bool, shape (R, L), True where the target belongs to a completion.
        labels: int64, shape (R, L, columns), for state supervision, or ``NO_TARGET``; None without it.
        programs: number of programs.
        target_count: number of targets.
        templates: int64, shape (programs,), the number of each program's template; None if not asked for.
    """

    tokens: torch.Tensor
    positions: torch.Tensor
    segments: torch.Tensor
    targets: torch.Tensor
    completion_mask: torch.Tensor
    programs: int
    target_count: int
    labels: torch.Tensor | None = None
    templates: torch.Tensor | None = None

    def to(self, device: torch.device) -> "PackedBatch":
        """Return the batch on a device; a GPU copies it while it computes."""
        if device.type == "cpu":
            return self
        names = ("tokens", "positions", "segments", "targets", "completion_mask", "labels", "templates")
        moved: dict[str, Any] = {
            name: tensor.pin_memory().to(device, non_blocking=True)
            for name in names
            if (tensor := getattr(self, name)) is not None
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

    Raises:
        ValueError: a program and its end token do not fit into a row.
    """
    rows, columns, row_count = pack(programs.lengths + 1, row_length)
    arrays = _arrange(
        TOKEN_OF_BYTE[programs.data],
        programs.offsets,
        prompt_lengths,
        rows,
        columns,
        (row_count, row_length),
        isa.END_ID,
    )
    tokens, positions, segments, targets, completion_mask = map(torch.from_numpy, arrays)
    packed_labels = None
    if labels is not None:
        # Every instruction has a target after it: the next one, or the end.
        packed_labels = torch.full((row_count, row_length, labels.shape[1]), NO_TARGET)
        places = _places(programs.offsets, rows, columns, row_length)
        packed_labels.flatten(0, 1)[torch.from_numpy(places)] = torch.from_numpy(labels)
    target_count = int(programs.lengths.sum())
    return PackedBatch(
        tokens,
        positions,
        segments,
        targets,
        completion_mask,
        programs=len(programs),
        target_count=target_count,
        labels=packed_labels,
        templates=None if templates is None else torch.from_numpy(templates),
    )


def _places(offsets: np.ndarray, rows: np.ndarray, columns: np.ndarray, row_length: int) -> np.ndarray:
    """Return the place of each instruction in the flattened rows: int64."""
    starts = rows * row_length + columns - offsets[:-1]
    places: np.ndarray = np.repeat(starts, np.diff(offsets)) + np.arange(offsets[-1])
    return places


def pack(lengths: np.ndarray, row_length: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Pack by best-fit decreasing: the longest piece first, each into the fullest row that has room for it.

    Returns:
        Row and first column of each piece, int64 of shape (n,), and the number of rows.

    Raises:
        ValueError: a piece is longer than a row.
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
