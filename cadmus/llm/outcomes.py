"""Outcomes of requests to large language models, and their counts.

Each request has one outcome:

* ``correct``: the answer is one comparator, in the requested symbols, and the VM finds the program true;
* ``wrong``: the answer is another comparator;
* ``unparsed``: the answer is anything else;
* ``truncated``: the token limit cut the answer off;
* ``refused``: the model or a filter declined to answer;
* ``malformed``: the reply has no known shape, so it says nothing about the model;
* ``rejected``: the server rejected the request, so the model never saw it;
* ``unanswered``: no reply arrived.

Accuracy is the fraction of ``correct`` among all but the last three.
"""

import polars as pl

GIVEN = ("correct", "wrong", "unparsed", "truncated", "refused")
"""Outcomes of programs that the model saw."""
OUTCOMES = (*GIVEN, "malformed", "rejected", "unanswered")
"""All outcomes."""
COLUMNS = {
    "model": str,
    "symbols": str,
    "max_output_tokens": int,
    "in_grid": bool,
    "x": int,
    "y": int,
    "program": str,
    "completion": str,
    "outcome": str,
    "input_tokens": int,
    "output_tokens": int,
    "usd": float,
}
"""Names and types of the columns of :func:`cadmus.llm.score.score`."""
_PROGRAMS = pl.col("outcome").is_in(GIVEN).sum().cast(pl.Int64).alias("programs")


def summary(answers: pl.DataFrame) -> pl.DataFrame:
    """Count the outcomes of each condition.

    Returns:
        model, symbols, max_output_tokens, programs (that the model saw), one column per outcome,
        output_tokens (mean) and usd (sum), in the order of the answers.
    """
    return answers.group_by("model", "symbols", "max_output_tokens", maintain_order=True).agg(
        _PROGRAMS, *map(_count, OUTCOMES), pl.col("output_tokens").mean(), pl.col("usd").sum()
    )


def pixels(answers: pl.DataFrame) -> pl.DataFrame:
    """Count the answers that belong to the comparison grid.

    Returns:
        model, symbols, max_output_tokens, x, y, programs and correct, in the order of the answers.
    """
    keys = ("model", "symbols", "max_output_tokens", "x", "y")
    return answers.filter("in_grid").group_by(*keys, maintain_order=True).agg(_PROGRAMS, _count("correct"))


def _count(outcome: str) -> pl.Expr:
    return (pl.col("outcome") == outcome).sum().cast(pl.Int64).alias(outcome)
