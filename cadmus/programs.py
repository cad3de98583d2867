"""A batch of programs as one ragged byte array; nothing between sampling and training needs Python strings.

Samplers build it, the compiled VM runs it, Parquet stores it as strings and training tokenizes it.
"""

import reprlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from cadmus import isa

# Numba and Arrow are imported where they are used: a few completions need neither, and Numba takes a second.
if TYPE_CHECKING:
    import pyarrow as pa

BYTE_OF_TOKEN = np.array([ord(row.symbol) for row in isa.INSTRUCTIONS], np.uint8)
"""Byte of every token id."""
TOKEN_OF_BYTE = np.full(256, -1, np.int64)
"""Token id of every byte; -1 for bytes that are not instructions."""
TOKEN_OF_BYTE[BYTE_OF_TOKEN] = np.arange(isa.VOCABULARY_SIZE)
FEW = 1 << 14
"""Instructions that NumPy copies, in a tenth of a millisecond; more are left to a compiled loop."""


@dataclass(eq=False, repr=False, slots=True)
class Programs:
    """Programs, or pieces of programs, as ASCII bytes without the end ``.``."""

    data: np.ndarray
    """uint8, shape (total,), the concatenated programs"""
    offsets: np.ndarray
    """int64, shape (n + 1,); program i is ``data[offsets[i]:offsets[i + 1]]``"""

    @classmethod
    def from_strings(cls, programs: Iterable[str]) -> "Programs":
        encoded = [program.encode("ascii") for program in programs]
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
        return cls(np.frombuffer(b"".join(encoded), np.uint8), offsets_of(lengths))

    @classmethod
    def from_arrow(cls, column: "pa.Array | pa.ChunkedArray") -> "Programs":
        """Wrap the buffers of a string column; only a column of several chunks is copied."""
        import pyarrow as pa

        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        column = column.cast(pa.large_string())
        _, offsets, data = column.buffers()
        offsets = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
        data = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
        return cls(data[offsets[0] : offsets[-1]], offsets - offsets[0])

    def to_arrow(self) -> "pa.Array":
        """Return a string column over the same bytes."""
        import pyarrow as pa

        buffers = [None, pa.py_buffer(self.offsets), pa.py_buffer(self.data)]
        return pa.Array.from_buffers(pa.large_string(), len(self), buffers)

    def to_strings(self) -> list[str]:
        """Return one Python string per program."""
        text = self.data.tobytes().decode("ascii")
        return [text[start:stop] for start, stop in pairwise(self.offsets.tolist())]

    def to_tokens(self) -> np.ndarray:
        """Return token ids, one program per row, padded with the end token: int64, shape (n, longest)."""
        tokens = np.full((len(self), self.lengths.max(initial=0)), isa.END_ID, np.int64)
        inside = np.arange(tokens.shape[1]) < self.lengths[:, None]
        tokens[inside] = TOKEN_OF_BYTE[self.data[self.offsets[0] : self.offsets[-1]]]
        return tokens

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        first = map(reprlib.repr, self.take(np.arange(min(len(self), 3))).to_strings())
        more = ", …" if len(self) > 3 else ""
        return f"<Programs: {', '.join([f'{len(self):,} programs', *first])}{more}>"

    @property
    def lengths(self) -> np.ndarray:
        """Number of instructions in each program: int64, shape (n,)."""
        return np.diff(self.offsets)

    def contain(self, pieces: "Programs") -> np.ndarray:
        """Tell which programs contain the instructions of their row in ``pieces``: bool, shape (n,)."""
        from cadmus import loops

        return loops.contain(self.data, self.offsets, pieces.data, pieces.offsets)

    def take(self, rows: np.ndarray) -> "Programs":
        """Select programs by index or boolean mask, in that order."""
        rows = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows.astype(np.int64, copy=False)
        # self.lengths would take 0.1 s for the paper's 80 million programs.
        starts = self.offsets[rows]
        return self._pieces(starts, self.offsets[rows + 1] - starts)

    def prefixes(self, lengths: np.ndarray) -> "Programs":
        """Truncate program i to its first ``lengths[i]`` instructions."""
        return self._pieces(self.offsets[:-1], lengths)

    def suffixes(self, starts: np.ndarray) -> "Programs":
        """Drop the first ``starts[i]`` instructions of program i."""
        begins = self.offsets[:-1] + starts
        return self._pieces(begins, self.offsets[1:] - begins)

    def all_prefixes(self) -> tuple["Programs", np.ndarray, np.ndarray]:
        """Return all nonempty prefixes, and for each its row and its length: int64, shape (total,)."""
        lengths = self.lengths
        row = np.repeat(np.arange(len(self)), lengths)
        length = 1 + np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return self.take(row).prefixes(length), row, length

    def _pieces(self, starts: np.ndarray, lengths: np.ndarray) -> "Programs":
        offsets = offsets_of(lengths)
        if offsets[-1] <= FEW:
            shift = np.repeat(starts - offsets[:-1], lengths)
            return Programs(self.data[shift + np.arange(offsets[-1])], offsets)
        from cadmus import loops

        data = np.empty(offsets[-1], np.uint8)
        loops.append(self.data, starts, starts + lengths, data, offsets[:-1].copy())
        return Programs(data, offsets)


Piece = Programs | bytes | np.ndarray
"""A part of every row in :func:`join`: a batch, bytes that all rows share, or uint8, one byte per row."""


def join(*pieces: Piece) -> Programs:
    """Concatenate pieces row by row: row i of the result is row i of each piece, in order."""
    from cadmus import loops

    rows = max(len(piece) for piece in pieces if not isinstance(piece, bytes))
    parts = []
    for piece in pieces:
        if isinstance(piece, bytes):
            starts = np.zeros(rows, np.int64)
            parts.append((np.frombuffer(piece, np.uint8), starts, starts + len(piece)))
        elif len(piece) != rows:
            raise ValueError(f"a piece of {len(piece)} rows among pieces of {rows}")
        elif isinstance(piece, Programs):
            parts.append((piece.data, piece.offsets[:-1], piece.offsets[1:]))
        else:
            parts.append((piece, np.arange(rows), np.arange(1, rows + 1)))
    offsets = offsets_of(np.sum([stops - starts for _, starts, stops in parts], axis=0))
    data = np.empty(offsets[-1], np.uint8)
    end = offsets[:-1].copy()
    for source, starts, stops in parts:
        loops.append(source, starts, stops, data, end)
    return Programs(data, offsets)


def concat(batches: Sequence[Programs]) -> Programs:
    """Concatenate batches."""
    lengths = np.concatenate([batch.lengths for batch in batches])
    return Programs(np.concatenate([batch.data for batch in batches]), offsets_of(lengths))


def interleave(variant: np.ndarray, batches: Sequence[Programs]) -> Programs:
    """Merge batches: row i is the next unused row of ``batches[variant[i]]``."""
    rows = np.empty(len(variant), np.int64)
    # NumPy sorts bytes by counting, 10x faster.
    rows[np.argsort(variant.astype(np.uint8, copy=False), kind="stable")] = np.arange(len(variant))
    return concat(batches).take(rows)


def offsets_of(lengths: np.ndarray) -> np.ndarray:
    """Return the offsets of pieces of the given lengths: int64, shape (n + 1,)."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


@dataclass(eq=False, slots=True)
class Samples:
    """A batch of n sampled programs, from a template to a shard, an experiment or training.

    ``x`` and ``y`` are the compared values, masked in rows without any; None if no row has one or they were
    not read.
    """

    programs: Programs
    prompt_length: np.ndarray
    """uint8, shape (n,), instructions in each prompt"""
    x: np.ndarray | None = None
    y: np.ndarray | None = None
    """int16, shape (n,)"""
    template: np.ndarray | None = None
    """objects (str), shape (n,), or None if not read"""

    def __post_init__(self) -> None:
        self.prompt_length = self.prompt_length.astype(np.uint8, copy=False)
        self.x, self.y = (
            None if column is None else column.astype(np.int16, copy=False) for column in (self.x, self.y)
        )

    @classmethod
    def from_arrow(cls, table: "pa.Table") -> "Samples":
        """Return the rows of a shard, with the columns that were read."""
        read = {name for name in table.column_names if not table[name].null_count}
        x, y = (_integers(table[name].combine_chunks()) if name in read else None for name in ("x", "y"))
        template = None
        if "template" in read:
            encoded = table["template"].dictionary_encode().combine_chunks()
            template = np.array(encoded.dictionary.to_pylist(), object)[_integers(encoded.indices)]
        lengths = _integers(table["prompt_length"].combine_chunks())
        return cls(Programs.from_arrow(table["program"]), lengths, x, y, template)

    @classmethod
    def concat(cls, batches: Sequence["Samples"]) -> "Samples":
        templates = [batch.template for batch in batches if batch.template is not None]
        return cls(
            concat([batch.programs for batch in batches]),
            np.concatenate([batch.prompt_length for batch in batches]),
            _concat_values(batches, "x"),
            _concat_values(batches, "y"),
            np.concatenate(templates) if templates else None,
        )

    def __len__(self) -> int:
        return len(self.programs)

    def take(self, rows: np.ndarray) -> "Samples":
        """Return the rows at ``rows``, indices or a mask, in that order."""
        columns = (None if column is None else column[rows] for column in (self.x, self.y, self.template))
        return Samples(self.programs.take(rows), self.prompt_length[rows], *columns)


def _integers(column: "pa.Array") -> np.ndarray:
    """Convert integers, none of them null; pyarrow's own conversion imports pandas, 0.3 s of each job."""
    return np.asarray(np.from_dlpack(column))


def _concat_values(batches: Sequence[Samples], name: str) -> np.ndarray | None:
    columns = [getattr(batch, name) for batch in batches]
    if all(column is None for column in columns):
        return None
    absent = [np.ma.array(np.zeros(len(batch), np.int16), mask=True) for batch in batches]
    filled = [blank if column is None else column for column, blank in zip(columns, absent, strict=True)]
    return np.ma.concatenate(filled)  # type: ignore[no-untyped-call]
