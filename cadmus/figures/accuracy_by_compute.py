"""Error on each sub-problem against training compute."""

import polars as pl
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from cadmus.figures import panels


def data(curve: pl.DataFrame) -> pl.DataFrame:
    """Return the plotted accuracies, sorted by question, policy and compute."""
    return panels.plotted(curve, "flops")


def draw(curve: pl.DataFrame) -> Figure:
    """Draw the results of ``cadmus evaluate curve``."""
    figure = panels.by_question(data(curve), "flops", "training compute, FLOPs", error=True)
    axes = figure.axes[0]
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    return figure
