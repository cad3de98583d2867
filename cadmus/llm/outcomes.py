"""Outcomes of questions to large language models, and their counts.

* ``correct``: the answer is the comparator that makes the program true, in the alphabet of the prompt;
* ``wrong``: the answer is another comparator;
* ``unparsed``: the answer is anything else;
* ``truncated``: the limit on output tokens cut the answer off;
* ``refused``: the model or a filter declined to answer;
* ``unanswered``: the question was not asked, or no reply arrived.

Accuracy is the fraction of ``correct`` among all but the last.
"""

import polars as pl

GIVEN = ("correct", "wrong", "unparsed", "truncated", "refused")
OUTCOMES = (*GIVEN, "unanswered")
COLUMNS = {
    **dict.fromkeys(("model", "alphabet"), str),
    **dict.fromkeys(("shots", "max_output_tokens"), int),
    "in_grid": bool,
    **dict.fromkeys(("x", "y"), int),
    **dict.fromkeys(("program", "completion", "outcome"), str),
    **dict.fromkeys(("less", "equal", "greater"), float),
    **dict.fromkeys(("input_tokens", "output_tokens"), int),
    "usd": float,
}
"""Names and types of the columns of ``llm.parquet``: a row per question and limit.

The program is in normal symbols and ends with the right comparator. Where the model chose among the
comparators, ``less``, ``equal`` and ``greater`` are their log-probabilities. Tokens are null if the server
does not count; usd is that of the reply, in the row of the largest limit.
"""
CONDITION = ("model", "alphabet", "shots", "in_grid", "max_output_tokens")
_PROGRAMS = pl.col("outcome").is_in(GIVEN).sum().cast(pl.Int64).alias("programs")


def at_limits(answers: pl.DataFrame, limits: list[int]) -> pl.DataFrame:
    """Return answers at the largest limit as they would be at each limit: cut off if they are longer."""
    given = pl.col("outcome").is_in(GIVEN)
    parts = [
        answers.with_columns(
            max_output_tokens=pl.lit(limit),
            outcome=pl.when(given & (pl.col("output_tokens") > limit))
            .then(pl.lit("truncated"))
            .otherwise("outcome"),
            usd=pl.col("usd") * (limit == max(limits)),
        )
        for limit in sorted(limits)
    ]
    return pl.concat(parts)


def summary(answers: pl.DataFrame) -> pl.DataFrame:
    """Count the outcomes of each condition.

    Returns:
        :data:`CONDITION`, programs (that the model saw), one column per outcome, input_tokens and
        output_tokens (means) and usd (sum), in the order of the answers.
    """
    return answers.group_by(CONDITION, maintain_order=True).agg(
        _PROGRAMS, *map(_count, OUTCOMES), pl.col("input_tokens", "output_tokens").mean(), pl.col("usd").sum()
    )


def pixels(answers: pl.DataFrame) -> pl.DataFrame:
    """Count the answers of the comparison grid at the largest limit.

    Returns:
        model, alphabet, max_output_tokens, x, y, programs and correct, in the order of the answers.
    """
    keys = ("model", "alphabet", "max_output_tokens", "x", "y")
    largest = answers.filter(
        pl.col("in_grid") & (pl.col("max_output_tokens") == pl.max("max_output_tokens").over("model"))
    )
    return largest.group_by(*keys, maintain_order=True).agg(_PROGRAMS, _count("correct"))


def _count(outcome: str) -> pl.Expr:
    return (pl.col("outcome") == outcome).sum().cast(pl.Int64).alias(outcome)
