"""Table 1: related work as listed in the paper, and this implementation."""

from pathlib import Path

import polars as pl

SOURCE = Path(__file__).with_name("related_work.csv")

_HEADS = {
    "transformer": "Transformer",
    "executes": "Executes",
    "values": "Values",
    "dsl": "Fixed DSL",
    "natural_language": "Natural language",
    "synthesis": "Synthesis",
    "induction": "Induction",
    "labels": "Sequence labels",
    "true_false": "True or false",
}


def table() -> pl.DataFrame:
    """Return the rows of ``related_work.csv``.

    Transformer: E encoder, D decoder. Values: I integers, F floats, L lists, S strings, T tokens, ASM for
    assembly.
    """
    dated = pl.format("{} ({})", "work", "year")
    work = pl.when(pl.col("year").is_null()).then("work").otherwise(dated).alias("Work")
    marks = [pl.col(name).replace({"yes": "✓", "no": ""}).alias(head) for name, head in _HEADS.items()]
    return pl.read_csv(SOURCE).select(work, *marks)
