"""Accuracy by distance from the training range, for each true comparator."""

import polars as pl
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from cadmus.evaluate.regions import COLUMNS as GRID
from cadmus.evaluate.regions import by_distance
from cadmus.figures import style

COLUMNS = (GRID,)


def data(grid: pl.DataFrame) -> pl.DataFrame:
    """Return the accuracy by true comparator and distance."""
    return by_distance(grid)


def draw(grid: pl.DataFrame) -> Figure:
    """Draw the results of ``cadmus evaluate grid``; distance 0 is in distribution."""
    figure = Figure(figsize=(style.COLUMN, 2.5))
    axes = figure.subplots()
    distances = data(grid)
    for comparator, color, marker in (
        ("<", style.BLUE, "o"),
        (">", style.ORANGE, "s"),
        ("=", style.GREEN, "^"),
    ):
        rows = distances.filter(comparator=comparator)
        label = f"X {comparator} Y"
        style.line(axes, rows, "distance", "accuracy", color=color, marker=marker, label=label)
    style.percent_axis(axes)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel="distance from the training range", ylabel="accuracy of the next token")
    figure.legend(loc="outside upper center", ncols=3)
    return figure
