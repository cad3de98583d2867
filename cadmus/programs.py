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
        return self.offsets[1:] - self.offsets[:-1]

    def take(self, rows: np.ndarray) -> "Programs":
        """The programs at ``rows`` (indices, or a mask as long as the batch), in that order."""
        rows = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows.astype(np.int64, copy=False)
        offsets = offsets_of(self.lengths[rows])
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
    batches = [_as_batch(piece, rows) for piece in pieces]
    lengths_of = [batch.lengths for batch in batches]
    offsets = offsets_of(sum(lengths_of))
    data = np.empty(offsets[-1], np.uint8)
    start = offsets[:-1].copy()
    for batch, lengths in zip(batches, lengths_of, strict=True):
        _copy_pieces(batch.data, batch.offsets[:-1], data, start, lengths)
        start += lengths
    return Programs(data, offsets)


def stack(batches: Sequence[Programs]) -> Programs:
    """The rows of several batches one after another."""
    lengths = np.concatenate([batch.lengths for batch in batches])
    return Programs(np.concatenate([batch.data for batch in batches]), offsets_of(lengths))


def offsets_of(lengths: np.ndarray) -> np.ndarray:
    """Offsets of pieces of the given lengths: int64, shape (n + 1,)."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _as_batch(piece: Piece, rows: int) -> Programs:
    if isinstance(piece, Programs):
        if len(piece) != rows:
            raise ValueError(f"a piece of {len(piece)} rows among pieces of {rows}")
        return piece
    if isinstance(piece, bytes):
        return Programs(
            np.tile(np.frombuffer(piece, np.uint8), rows), np.arange(rows + 1, dtype=np.int64) * len(piece)
        )
    return Programs(piece, np.arange(len(piece) + 1, dtype=np.int64))


@numba.njit(cache=True)
def _copy_rows(source, source_offsets, rows, target, target_offsets):  # pragma: no cover - compiled
    for i in range(len(rows)):
        start = source_offsets[rows[i]]
        for k in range(target_offsets[i + 1] - target_offsets[i]):
            target[target_offsets[i] + k] = source[start + k]


@numba.njit(cache=True)
def _copy_pieces(source, source_start, target, target_start, lengths):  # pragma: no cover - compiled
    for i in range(len(lengths)):
        for k in range(lengths[i]):
            target[target_start[i] + k] = source[source_start[i] + k]
