"""Accuracy on each sub-problem against program length."""

import polars as pl
from matplotlib.figure import Figure

from cadmus.evaluate.results import by_length
from cadmus.figures import panels


def data(completions: pl.DataFrame) -> pl.DataFrame:
    """Return the accuracy by question and bin of lengths."""
    return panels.plotted(by_length(completions), "longest")


def draw(completions: pl.DataFrame) -> Figure:
    """Draw the results of ``cadmus evaluate completions``, each point at the middle of its bin."""
    middle = (pl.col("shortest") + pl.col("longest")) / 2
    lengths = data(completions).with_columns(middle.alias("length"))
    return panels.by_question(lengths, "length", "program length, instructions")
