"""A batch of programs as one ragged byte array, the currency of the whole pipeline.

Samplers build it, the compiled machine reads it, Parquet holds it as strings and training reads it
through a lookup table; nowhere is there a Python object per program.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numba
import numpy as np
import pyarrow as pa


class Programs:
    """Programs (or pieces of them) as ASCII bytes, without the end ``.``.

    Attributes:
        data: uint8, shape (total,), the bytes of all programs one after another.
        offsets: int64, shape (n + 1,), program i is ``data[offsets[i]:offsets[i + 1]]``.
    """

    __slots__ = ("data", "offsets")

    def __init__(self, data: np.ndarray, offsets: np.ndarray) -> None:
        self.data = data
        self.offsets = offsets

    @classmethod
    def from_strings(cls, programs: Iterable[str]) -> "Programs":
        """A batch of the given strings."""
        encoded = [program.encode("ascii") for program in programs]
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
        return cls(np.frombuffer(b"".join(encoded), np.uint8), offsets_of(lengths))

    @classmethod
    def from_arrow(cls, column: pa.Array | pa.ChunkedArray) -> "Programs":
        """A batch over the buffers of a string column, copied only when it has several chunks."""
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        column = column.cast(pa.large_string())
        _, offsets, data = column.buffers()
        offsets = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
        data = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
        return cls(data[offsets[0] : offsets[-1]], offsets - offsets[0])

    def to_arrow(self) -> pa.Array:
        """A string column over the same bytes.

        Raises:
            OverflowError: the batch holds 2 GiB of bytes or more.
        """
        if self.offsets[-1] >= 2**31:
            raise OverflowError("a string column holds less than 2 GiB")
        offsets = pa.py_buffer(self.offsets.astype(np.int32))
        return pa.Array.from_buffers(pa.string(), len(self), [None, offsets, pa.py_buffer(self.data)])

    def to_strings(self) -> list[str]:
        """One Python string for each program."""
        text = self.data.tobytes().decode("ascii")
        bounds = self.offsets.tolist()
        return [text[start:stop] for start, stop in pairwise(bounds)]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> np.ndarray:
        """Instructions in each program: int64, shape (n,)."""
        return np.diff(self.offsets)

    def take(self, rows: np.ndarray) -> "Programs":
        """The programs at ``rows`` (indices, or a mask as long as the batch), in that order."""
        rows = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows.astype(np.int64, copy=False)
        # The lengths of all programs would take a tenth of a second at the size of the paper's dataset.
        offsets = offsets_of(self.offsets[rows + 1] - self.offsets[rows])
        data = np.empty(offsets[-1], np.uint8)
        _copy_rows(self.data, self.offsets, rows, data, offsets)
        return Programs(data, offsets)

    def prefixes(self, lengths: np.ndarray) -> "Programs":
        """The first ``lengths[i]`` instructions of each program."""
        offsets = offsets_of(lengths)
        data = np.empty(offsets[-1], np.uint8)
        _copy_pieces(self.data, self.offsets[:-1], data, offsets[:-1], np.diff(offsets))
        return Programs(data, offsets)


Piece = Programs | bytes | np.ndarray
"""What :func:`join` accepts: a batch, literal bytes for every row, or one byte per row."""


def join(*pieces: Piece) -> Programs:
    """Concatenate pieces row by row: row i of the result is row i of every piece, in order.

    Literal ``bytes`` stand in every row; a uint8 array of shape (n,) gives one instruction per row.
    """
    rows = max(len(piece) for piece in pieces if not isinstance(piece, bytes))
    lengths = np.zeros(rows, np.int64)
    for piece in pieces:
        if not isinstance(piece, bytes) and len(piece) != rows:
            raise ValueError(f"a piece of {len(piece)} rows among pieces of {rows}")
        lengths += _lengths_of(piece)
    offsets = offsets_of(lengths)
    data = np.empty(offsets[-1], np.uint8)
    end = offsets[:-1].copy()
    for piece in pieces:
        if isinstance(piece, Programs):
            _append_pieces(piece.data, piece.offsets, data, end)
        elif isinstance(piece, bytes):
            _append_literal(np.frombuffer(piece, np.uint8), data, end)
        else:
            _append_column(piece, data, end)
    return Programs(data, offsets)


def stack(batches: Sequence[Programs]) -> Programs:
    """The rows of several batches one after another."""
    lengths = np.concatenate([batch.lengths for batch in batches])
    return Programs(np.concatenate([batch.data for batch in batches]), offsets_of(lengths))


def interleave(variant: np.ndarray, drawn: Sequence[Programs]) -> Programs:
    """Row i is the next unused row of ``drawn[variant[i]]``."""
    rows = np.empty(len(variant), np.int64)
    # NumPy sorts bytes by counting, which takes a tenth of the time.
    rows[np.argsort(variant.astype(np.uint8, copy=False), kind="stable")] = np.arange(len(variant))
    return stack(drawn).take(rows)


def offsets_of(lengths: np.ndarray) -> np.ndarray:
    """Offsets of pieces of the given lengths: int64, shape (n + 1,)."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _lengths_of(piece: Piece) -> np.ndarray | int:
    """Instructions in a piece: of each row, or of every row."""
    if isinstance(piece, Programs):
        return piece.lengths
    return len(piece) if isinstance(piece, bytes) else 1


@numba.njit(cache=True)
def _copy_rows(
    source: np.ndarray,
    source_offsets: np.ndarray,
    rows: np.ndarray,
    target: np.ndarray,
    target_offsets: np.ndarray,
) -> None:  # pragma: no cover - compiled
    for i in range(len(rows)):
        start = source_offsets[rows[i]]
        for k in range(target_offsets[i + 1] - target_offsets[i]):
            target[target_offsets[i] + k] = source[start + k]


@numba.njit(cache=True)
def _copy_pieces(
    source: np.ndarray,
    source_start: np.ndarray,
    target: np.ndarray,
    target_start: np.ndarray,
    lengths: np.ndarray,
) -> None:  # pragma: no cover - compiled
    for i in range(len(lengths)):
        for k in range(lengths[i]):
            target[target_start[i] + k] = source[source_start[i] + k]


# These write a piece at the ends of the rows, and move the ends behind it.


@numba.njit(cache=True)
def _append_pieces(
    source: np.ndarray, source_offsets: np.ndarray, target: np.ndarray, end: np.ndarray
) -> None:  # pragma: no cover - compiled
    for i in range(len(end)):
        at = end[i]
        for k in range(source_offsets[i], source_offsets[i + 1]):
            target[at] = source[k]
            at += 1
        end[i] = at


@numba.njit(cache=True)
def _append_literal(
    literal: np.ndarray, target: np.ndarray, end: np.ndarray
) -> None:  # pragma: no cover - compiled
    for i in range(len(end)):
        for k in range(len(literal)):
            target[end[i] + k] = literal[k]
        end[i] += len(literal)


@numba.njit(cache=True)
def _append_column(
    column: np.ndarray, target: np.ndarray, end: np.ndarray
) -> None:  # pragma: no cover - compiled
    for i in range(len(end)):
        target[end[i]] = column[i]
        end[i] += 1
