"""A 5-gram model of programs: the baseline that has seen every training program and understands none."""

import numba
import numpy as np

from cadmus import isa
from cadmus.programs import BYTE_OF_TOKEN, TOKEN_OF_BYTE, Programs, offsets_of

ORDER = 5
"""Tokens of an n-gram: the last one follows the others."""
_CONTEXT = ORDER - 1
_START = isa.VOCABULARY_SIZE
"""Stands before the first instruction of a program."""
_BASE = isa.VOCABULARY_SIZE + 1
_FIRST_ROWS = 1 << 12


class NGrams:
    """Counts of what follows each four tokens, fewer at the start of a program.

    :meth:`complete` continues with the most frequent token after the longest end of the text, of at most four
    tokens, that was seen.
    """

    def __init__(self) -> None:
        self._row_of = np.full(_BASE**_CONTEXT, -1, np.int32)
        self._counts = np.zeros((_FIRST_ROWS, isa.VOCABULARY_SIZE), np.int64)
        self._rows = 0
        self._likeliest: list[np.ndarray] = []

    def count(self, programs: Programs) -> None:
        self._likeliest = []
        first = 0
        while first < len(programs):
            first, self._rows = _count(
                programs.data, programs.offsets, TOKEN_OF_BYTE, first, self._row_of, self._counts, self._rows
            )
            if first < len(programs):
                self._counts = np.concatenate([self._counts, np.zeros_like(self._counts)])

    def likeliest(self) -> list[np.ndarray]:
        """Return the most frequent next token for each context of 0, 1, ..., 4 tokens.

        They are int8, shape (66 ** length,); -1 where the context was not seen. A context is a number in base
        66, its last token the last digit.
        """
        if self._likeliest:
            return self._likeliest
        codes = np.flatnonzero(self._row_of >= 0)
        counts = self._counts[self._row_of[codes]]
        tables = []
        for length in range(_CONTEXT, -1, -1):
            table = np.full(_BASE**length, -1, np.int8)
            table[codes] = counts.argmax(1)
            tables.append(table)
            if length:
                # Contexts with the same end are one shorter context.
                codes, merged = np.unique(codes % _BASE ** (length - 1), return_inverse=True)
                summed = np.zeros((len(codes), isa.VOCABULARY_SIZE), np.int64)
                np.add.at(summed, merged, counts)
                counts = summed
        self._likeliest = tables[::-1]
        return self._likeliest

    def complete(self, prompts: Programs, max_length: int) -> tuple[Programs, np.ndarray]:
        """Complete each prompt until the end ``.`` or until it has ``max_length`` instructions.

        Returns the completions without the end, and whether each ended: bool, shape (n,).
        """
        tables = self.likeliest()
        if tables[0][0] < 0:
            raise ValueError("no program was counted")
        recent = np.full((len(prompts), _CONTEXT), _START, np.int64)
        for back in range(_CONTEXT):
            inside = prompts.lengths > back
            at = (prompts.offsets[1:] - 1 - back)[inside]
            recent[inside, _CONTEXT - 1 - back] = TOKEN_OF_BYTE[prompts.data[at]]
        room = max_length - prompts.lengths
        symbols = np.zeros((len(prompts), max(0, room.max(initial=0))), np.uint8)
        lengths = np.zeros(len(prompts), np.int64)
        ended = np.zeros(len(prompts), np.bool_)
        live = np.arange(len(prompts))
        while len(live):
            tokens = _next(recent[live], tables)
            ended[live[tokens == isa.END_ID]] = True
            going = (tokens != isa.END_ID) & (lengths[live] < room[live])
            live, tokens = live[going], tokens[going]
            symbols[live, lengths[live]] = BYTE_OF_TOKEN[tokens]
            lengths[live] += 1
            recent[live] = np.column_stack([recent[live, 1:], tokens])
        inside = np.arange(symbols.shape[1]) < lengths[:, None]
        return Programs(symbols[inside], offsets_of(lengths)), ended


def _next(recent: np.ndarray, tables: list[np.ndarray]) -> np.ndarray:
    """Return the token after each context, int64 of shape (n, 4), by the longest end of it that was seen."""
    tokens = np.full(len(recent), -1, np.int64)
    for length in range(_CONTEXT, -1, -1):
        codes = recent[:, _CONTEXT - length :] @ (_BASE ** np.arange(length - 1, -1, -1))
        tokens = np.where(tokens < 0, tables[length][codes], tokens)
    return tokens


@numba.njit(cache=True)
def _count(
    data: np.ndarray,
    offsets: np.ndarray,
    token_of_byte: np.ndarray,
    first: int,
    row_of: np.ndarray,
    counts: np.ndarray,
    rows: int,
) -> tuple[int, int]:  # pragma: no cover - compiled
    """Count programs from ``first`` on; return the first for which ``counts`` is too small, and used rows."""
    modulus = row_of.shape[0]
    start = 0
    for _ in range(_CONTEXT):
        start = start * _BASE + _START
    for i in range(first, len(offsets) - 1):
        if rows + offsets[i + 1] - offsets[i] + 1 > len(counts):
            return i, rows
        context = start
        for k in range(offsets[i], offsets[i + 1] + 1):
            token = token_of_byte[data[k]] if k < offsets[i + 1] else isa.END_ID
            row = row_of[context]
            if row < 0:
                row = rows
                row_of[context] = row
                rows += 1
            counts[row, token] += 1
            context = (context * _BASE + token) % modulus
    return len(offsets) - 1, rows
