"""Table 1: related work as listed in the paper, and this implementation."""

from pathlib import Path

import polars as pl

SOURCE = Path(__file__).with_name("related_work.csv")

_HEADS = {"dsl": "Fixed DSL", "labels": "Sequence labels", "true_false": "True or false"}
"""Headings that say more than the name of the column."""


def table() -> pl.DataFrame:
    """Return the rows of ``related_work.csv``.

    Transformer: E encoder, D decoder. Values: I integers, F floats, L lists, S strings, T tokens, ASM for
    assembly.
    """
    related = pl.read_csv(SOURCE)
    dated = pl.format("{} ({})", "work", "year")
    work = pl.when(pl.col("year").is_null()).then("work").otherwise(dated).alias("Work")
    heads = {name: _HEADS.get(name, name.replace("_", " ").capitalize()) for name in related.columns[2:]}
    marks = [pl.col(name).replace({"yes": "✓", "no": ""}).alias(head) for name, head in heads.items()]
    return related.select(work, *marks)
