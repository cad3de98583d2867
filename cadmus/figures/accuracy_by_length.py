"""Accuracy on each sub-problem against the length of the program."""

import polars as pl
from matplotlib.figure import Figure

from cadmus.evaluate.breakdowns import by_length
from cadmus.evaluate.results import METRICS
from cadmus.figures import panels

COLUMNS = (("template", "program", *METRICS),)


def data(completions: pl.DataFrame) -> pl.DataFrame:
    """Accuracies of lengths that are taken together, template by template."""
    return panels.drawn(by_length(completions), "longest")


def draw(completions: pl.DataFrame) -> Figure:
    """From the completions of ``cadmus evaluate``; a point stands at the middle of its lengths."""
    middle = (pl.col("shortest") + pl.col("longest")) / 2
    lengths = data(completions).with_columns(middle.alias("length"))
    return panels.by_template(lengths, "length", "length of the held-out program, instructions")
