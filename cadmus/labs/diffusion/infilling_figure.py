"""Accuracy of infilling against the length of the hole."""

import polars as pl
from matplotlib.figure import Figure

from cadmus.evaluate.questions import in_order
from cadmus.figures import panels, style

_LINES = (
    panels.Line(True, "filled", "model", style.BLUE, "o"),
    panels.Line(False, "filled", "most frequent between the neighbors", style.GRAY),
)


def data(infilling: pl.DataFrame) -> pl.DataFrame:
    """Return the results by question, policy and hole."""
    return in_order(infilling, pl.col("policy") != "model", "hole")


def draw(infilling: pl.DataFrame) -> Figure:
    """Draw the results of ``cadmus evaluate infilling``."""
    results = data(infilling).with_columns(metric=pl.lit("filled"))
    return panels.by_question(results, "hole", "instructions of the hole", lines=_LINES)
