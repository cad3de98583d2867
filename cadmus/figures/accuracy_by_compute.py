"""Accuracy on each sub-problem against the compute of the training."""

import polars as pl
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from cadmus.figures import panels

COLUMNS = (("flops", "template", "metric", "accuracy", "low", "high"),)


def data(curve: pl.DataFrame) -> pl.DataFrame:
    """The drawn rows, template by template and in the order of the compute."""
    return panels.drawn(curve, "flops")


def draw(curve: pl.DataFrame) -> Figure:
    """From the numbers of :func:`cadmus.experiments.curve.measure`."""
    figure = panels.by_template(curve, "flops", "training compute so far, FLOPs")
    axes = figure.axes[0]
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    return figure
