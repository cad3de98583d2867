"""A 5-gram model of programs: the baseline that has seen every training program and understands none."""

import numpy as np
import polars as pl

from cadmus import isa
from cadmus.programs import BYTE_OF_TOKEN, TOKEN_OF_BYTE, Programs, join, offsets_of

ORDER = 5
"""Tokens of an n-gram: the last one follows the others."""
_CONTEXT = ORDER - 1
_START = isa.VOCABULARY_SIZE
"""Stands before the first instruction of a program."""
_BASE = isa.VOCABULARY_SIZE + 1


class NGrams:
    """Counts of what follows each four tokens, fewer at the start of a program.

    :meth:`complete` continues with the most frequent token after the longest end of the text, of at most four
    tokens, that was seen.
    """

    def __init__(self) -> None:
        # An n-gram is a number in base 66, its last token the last digit.
        self._counts = pl.DataFrame(schema={"ngram": pl.Int64, "count": pl.Int64})
        self._likeliest: list[np.ndarray] = []

    def count(self, programs: Programs) -> None:
        if not len(programs):
            return
        tokens = TOKEN_OF_BYTE[join(b" " * _CONTEXT, programs, isa.END.encode()).data]
        tokens[tokens < 0] = _START
        windows = np.lib.stride_tricks.sliding_window_view(tokens, ORDER)
        ngrams = windows[windows[:, -1] != _START] @ (_BASE ** np.arange(_CONTEXT, -1, -1))
        counted = pl.Series("ngram", ngrams).value_counts().cast(pl.Int64)
        self._counts = pl.concat([self._counts, counted]).group_by("ngram").agg(pl.sum("count"))
        self._likeliest = []

    def likeliest(self) -> list[np.ndarray]:
        """Return the most frequent next token for each context of 0, 1, ..., 4 tokens.

        They are int8, shape (66 ** length,), by the number of the context; -1 where it was not seen. Of
        equally frequent tokens, it is the first in the instruction table.
        """
        for length in range(len(self._likeliest), ORDER):
            context = (pl.col("ngram") // _BASE % _BASE**length).alias("context")
            counts = self._counts.group_by(context, token=pl.col("ngram") % _BASE).agg(pl.sum("count"))
            first = counts.sort("count", "token", descending=[True, False]).unique("context", keep="first")
            table = np.full(_BASE**length, -1, np.int8)
            table[first["context"]] = first["token"]
            self._likeliest.append(table)
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
            tokens = np.full(len(live), -1)
            for length, table in reversed([*enumerate(tables)]):
                contexts = recent[live, _CONTEXT - length :] @ (_BASE ** np.arange(length - 1, -1, -1))
                tokens = np.where(tokens < 0, table[contexts], tokens)
            ended[live[tokens == isa.END_ID]] = True
            going = (tokens != isa.END_ID) & (lengths[live] < room[live])
            live, tokens = live[going], tokens[going]
            symbols[live, lengths[live]] = BYTE_OF_TOKEN[tokens]
            lengths[live] += 1
            recent[live] = np.column_stack([recent[live, 1:], tokens])
        inside = np.arange(symbols.shape[1]) < lengths[:, None]
        return Programs(symbols[inside], offsets_of(lengths)), ended
