"""Accuracy at the comparator over X and Y, with the in-distribution square."""

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from cadmus.evaluate.intervals import as_text
from cadmus.evaluate.numbers import with_accuracy
from cadmus.evaluate.regions import COLUMNS as GRID
from cadmus.evaluate.regions import summary, training_range
from cadmus.figures import style

_NO_PROGRAM = {"facecolor": "#D9D9D9", "edgecolor": "#999999", "linewidth": 0, "hatch": "//////"}

COLUMNS = (GRID,)


def numbers(grid: pl.DataFrame) -> pl.DataFrame:
    """The pixels, each with its accuracy and interval."""
    return with_accuracy(grid)


@style.styled
def draw(grid: pl.DataFrame) -> Figure:
    """The heat map of the numbers of :func:`cadmus.evaluate.grid.comparison_grid`."""
    figure = Figure(figsize=(style.COLUMN, 3.25))
    axes = figure.subplots()
    axis = np.arange(grid["x"].min(), grid["x"].max() + 1)
    accuracy = np.full((len(axis), len(axis)), np.nan)
    accuracy[grid["y"] - axis[0], grid["x"] - axis[0]] = numbers(grid)["accuracy"]
    low, high = axis[0] - 0.5, axis[-1] + 0.5
    # Below the image, whose empty pixels let it through.
    axes.add_patch(Rectangle((low, low), high - low, high - low, zorder=-1, **_NO_PROGRAM))
    image = axes.imshow(
        accuracy, origin="lower", extent=(low, high, low, high), vmin=0, vmax=1, interpolation="nearest"
    )
    first, last = training_range(grid)
    size = last - first + 1
    square = Rectangle((first - 0.5, first - 0.5), size, size, fill=False, ec="black", lw=1.4, ls=(0, (3, 2)))
    # A dashed line on white is seen on dark and bright pixels alike.
    axes.add_patch(Rectangle(square.get_xy(), size, size, fill=False, ec="white", lw=2.2))
    axes.add_patch(square)
    axes.set(xlabel="X", ylabel="Y")
    axes.spines[:].set_visible(False)
    bar = figure.colorbar(image, ax=axes, format=style.PERCENT, shrink=0.8, pad=0.02)
    bar.outline.set_visible(False)
    bar.set_label("accuracy of the next token")
    handles = [square]
    labels = ["in distribution"]
    if np.isnan(accuracy).any():
        handles.append(Patch(**_NO_PROGRAM))
        labels.append("no held-out program")
    figure.legend(handles, labels, loc="outside upper center", ncols=2)
    names = {
        "in_distribution": "in distribution",
        "out_of_distribution": "out of distribution",
        "out_of_distribution_diagonal": "of these, X = Y",
    }
    lines = [
        f"{names[row['region']]}: {as_text(row['accuracy'], row['low'], row['high'])}"
        for row in summary(grid).iter_rows(named=True)
    ]
    figure.supxlabel("\n".join(lines), fontsize=7)
    return figure
