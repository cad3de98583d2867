"""Completions by what their programs are like."""

import polars as pl

from cadmus import isa
from cadmus.config import TEMPLATES
from cadmus.evaluate.results import accuracy_by

BIN = 4
"""Lengths that are taken together."""
CALLS = [
    instruction.symbol for instruction in isa.INSTRUCTIONS if instruction.group in ("calls", "higher order")
]
"""The instructions that call a subroutine; an example has one of them."""


def by_length(completions: pl.DataFrame) -> pl.DataFrame:
    """Accuracy by the length of the held-out program.

    Returns:
        template, shortest and longest (of the lengths taken together, in instructions), and as
        :func:`cadmus.evaluate.results.accuracy_by`.
    """
    length = pl.col("program").str.len_chars().cast(pl.Int64)
    shortest = (length - 1) // BIN * BIN + 1
    grouped = completions.filter(pl.col("template").is_in(TEMPLATES)).with_columns(
        shortest.alias("shortest"), (shortest + BIN - 1).alias("longest")
    )
    return accuracy_by(grouped, "template", "shortest", "longest")


def by_examples(completions: pl.DataFrame) -> pl.DataFrame:
    """Accuracy of induction (complete_algorithm) by the number of examples in the prompt.

    Returns:
        examples, and as :func:`cadmus.evaluate.results.accuracy_by`.
    """
    prompt = pl.col("program").str.head(pl.col("prompt_length"))
    examples = pl.sum_horizontal(prompt.str.count_matches(symbol, literal=True) for symbol in CALLS)
    induction = completions.filter(template="complete_algorithm")
    return accuracy_by(induction.with_columns(examples.cast(pl.Int64).alias("examples")), "examples")
