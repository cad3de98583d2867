"""Outcomes of questions to large language models, and their counts.

* ``correct``: the answer is the comparator that makes the program true, in the alphabet of the prompt;
* ``wrong``: the answer is another comparator;
* ``unparsed``: the answer is anything else, after the forms that models write it in are removed;
* ``truncated``: the limit on output tokens cut the answer off;
* ``refused``: the model or a filter declined to answer;
* ``unanswered``: the question was not asked, or no reply arrived.

Accuracy is the fraction of ``correct`` among all but the last, and ``unreadable`` that of ``unparsed``. An
answer in another form does not say that the model compares wrongly.
"""

from typing import get_args

import polars as pl

from cadmus.columns import COUNT, FLAG, LABEL, NONNEGATIVE, PROGRAM, VALUE, Column, Table, one_of
from cadmus_llm.settings import Alphabet

REPLY = Column(str, longest=10_000_000, null=True)
LOG_PROBABILITY = Column(float, high=0, null=True)
ANSWERED = ("correct", "wrong", "unparsed", "truncated", "refused")
OUTCOMES = (*ANSWERED, "unanswered")
TABLE = Table(
    {
        "model": LABEL,
        "alphabet": one_of(get_args(Alphabet)),
        "shots": COUNT,
        "max_output_tokens": Column(int, low=1, high=1_000_000),
        "in_grid": FLAG,
        "x": VALUE,
        "y": VALUE,
        "program": PROGRAM,
        "completion": REPLY,
        "outcome": one_of(OUTCOMES),
        "less": LOG_PROBABILITY,
        "equal": LOG_PROBABILITY,
        "greater": LOG_PROBABILITY,
        "input_tokens": COUNT.or_null(),
        "output_tokens": COUNT.or_null(),
        "usd": NONNEGATIVE,
    }
)
"""Columns of ``llm.parquet``: a row per question and limit.

The program is in normal symbols and ends with the right comparator. Where the model chose among the
comparators, ``less``, ``equal`` and ``greater`` are their log-probabilities. Tokens are null if the server
does not count; usd is that of the reply, in the row of the largest limit.
"""
CONDITION = ("model", "alphabet", "shots", "in_grid", "max_output_tokens")
_PROGRAMS = pl.col("outcome").is_in(ANSWERED).sum().cast(pl.Int64).alias("programs")


def at_limits(answers: pl.DataFrame, limits: list[int]) -> pl.DataFrame:
    """Return answers at the largest limit as they would be at each limit: cut off if they are longer."""
    limit = pl.col("max_output_tokens")
    cut_off = pl.col("outcome").is_in(ANSWERED) & (pl.col("output_tokens") > limit)
    answers = pl.DataFrame({"max_output_tokens": sorted(limits)}).join(
        answers.drop("max_output_tokens"), how="cross", maintain_order="left_right"
    )
    return answers.with_columns(
        outcome=pl.when(cut_off).then(pl.lit("truncated")).otherwise("outcome"),
        usd=pl.when(limit == max(limits)).then("usd").otherwise(0.0),
    )


def summary(answers: pl.DataFrame) -> pl.DataFrame:
    """Count the outcomes of each :data:`CONDITION`, in the order of the answers.

    ``programs`` are those that the model saw, ``unreadable`` is the fraction without a readable answer;
    input_tokens and output_tokens are means, usd is the sum.
    """
    counts = answers.group_by(CONDITION, maintain_order=True).agg(
        _PROGRAMS, *map(_count, OUTCOMES), pl.col("input_tokens", "output_tokens").mean(), pl.col("usd").sum()
    )
    asked = pl.when(pl.col("programs") > 0).then("programs")
    return counts.with_columns(unreadable=pl.col("unparsed") / asked)


def pixels(answers: pl.DataFrame) -> pl.DataFrame:
    """Count programs and correct answers by model, alphabet, x and y of the grid, at the largest limit."""
    keys = ("model", "alphabet", "max_output_tokens", "x", "y")
    limit = pl.col("max_output_tokens")
    largest = answers.filter(pl.col("in_grid"), limit == limit.max().over("model"))
    return largest.group_by(*keys, maintain_order=True).agg(_PROGRAMS, _count("correct"))


def _count(outcome: str) -> pl.Expr:
    return (pl.col("outcome") == outcome).sum().cast(pl.Int64).alias(outcome)
