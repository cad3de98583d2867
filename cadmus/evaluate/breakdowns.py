"""Accuracy of completions by program length and by number of examples."""

import polars as pl

from cadmus import isa
from cadmus.evaluate.questions import in_order
from cadmus.evaluate.results import accuracy_by

BIN = 4
"""Lengths per bin."""
CALLS = [
    instruction.symbol for instruction in isa.INSTRUCTIONS if instruction.group in ("calls", "higher order")
]
"""Instructions that call a subroutine; each example has exactly one."""


def by_length(completions: pl.DataFrame) -> pl.DataFrame:
    """Compute the accuracy by question and program length, in bins of :data:`BIN` lengths.

    Returns:
        The columns of :func:`cadmus.evaluate.results.accuracy_by`, with the keys question, shortest and
        longest (bounds of the bin, in instructions).
    """
    length = pl.col("program").str.len_chars().cast(pl.Int64)
    shortest = (length - 1) // BIN * BIN + 1
    binned = completions.with_columns(shortest.alias("shortest"), (shortest + BIN - 1).alias("longest"))
    results = accuracy_by(binned, "question", "shortest", "longest")
    question = pl.col("question").cast(in_order(completions["question"]))
    return results.sort(question, "shortest", maintain_order=True)


def by_examples(completions: pl.DataFrame) -> pl.DataFrame:
    """Compute the accuracy of induction (complete_algorithm) by the number of examples in the prompt.

    Returns:
        The columns of :func:`cadmus.evaluate.results.accuracy_by`, with the key examples, ascending.
    """
    prompt = pl.col("program").str.head(pl.col("prompt_length"))
    examples = pl.sum_horizontal(prompt.str.count_matches(symbol, literal=True) for symbol in CALLS)
    induction = completions.filter(question="complete_algorithm")
    counted = induction.with_columns(examples.cast(pl.Int64).alias("examples"))
    return accuracy_by(counted, "examples").sort("examples", maintain_order=True)
