"""What becomes of the requests to large language models, and what it comes to.

Each request has one outcome:

* ``correct``: the answer is one comparator, in the symbols asked for, and the machine finds the program true;
* ``wrong``: it is another comparator;
* ``unparsed``: it is anything else;
* ``truncated``: the limit of tokens cut it off;
* ``refused``: the model, or a filter, would not answer;
* ``rejected``: the server did not accept the request, so that the model has not seen it;
* ``unanswered``: there is no reply.

All but the last two were given to the model and count; only ``correct`` ones are right.
"""

import polars as pl

GIVEN = ("correct", "wrong", "unparsed", "truncated", "refused")
"""The outcomes of programs that the model was given."""
OUTCOMES = (*GIVEN, "rejected", "unanswered")
"""All outcomes."""
COLUMNS = ("model", "symbols", "max_output_tokens", "in_grid", "x", "y", "outcome", "output_tokens", "usd")
"""What is needed of the answers, as :func:`cadmus.llm.score.score` gives them."""


def summary(answers: pl.DataFrame) -> pl.DataFrame:
    """Counts of each condition.

    Returns:
        model, symbols, max_output_tokens, programs (that the model was given), each of ``OUTCOMES``,
        output_tokens (in the mean) and usd; in the order of the answers.
    """
    counts = (_count(pl.col("outcome") == name).alias(name) for name in OUTCOMES)
    return answers.group_by("model", "symbols", "max_output_tokens", maintain_order=True).agg(
        _given(), *counts, pl.col("output_tokens").mean(), pl.col("usd").sum()
    )


def pixels(answers: pl.DataFrame) -> pl.DataFrame:
    """The part of the answers that belongs to the comparison grid.

    Returns:
        model, symbols, max_output_tokens, x, y, programs and correct; in the order of the answers.
    """
    keys = ("model", "symbols", "max_output_tokens", "x", "y")
    correct = _count(pl.col("outcome") == "correct").alias("correct")
    return answers.filter("in_grid").group_by(*keys, maintain_order=True).agg(_given(), correct)


def _given() -> pl.Expr:
    return _count(pl.col("outcome").is_in(GIVEN)).alias("programs")


def _count(condition: pl.Expr) -> pl.Expr:
    return condition.sum().cast(pl.Int64)
