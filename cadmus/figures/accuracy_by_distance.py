"""Accuracy by region and distance from the training range."""

import polars as pl
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from cadmus.evaluate.regions import BIN, REGIONS, by_distance
from cadmus.figures import style

_LINES = {
    "one_out": ("#CC79A7", "D"),
    "opposite": (style.BLUE, "o"),
    "same_side": (style.ORANGE, "s"),
    "diagonal": (style.GREEN, "^"),
}
data = by_distance


def draw(grid: pl.DataFrame) -> Figure:
    """Draw the results of ``cadmus evaluate grid``; distance 0 is inside the training range."""
    figure = Figure(figsize=(style.COLUMN, 2.9))
    axes = figure.subplots()
    distances = data(grid).with_columns(distance=(pl.col("first") + pl.col("last")) / 2)
    inside = distances.filter(region="inside")
    look = {"color": "black", "marker": "o", "ls": "none", "label": REGIONS["inside"]}
    style.intervals(axes, inside, "distance", **look)
    axes.plot(inside["distance"], inside["baseline"], "k_")
    for region, (color, marker) in _LINES.items():
        rows = distances.filter(region=region)
        if rows.is_empty():
            continue
        label = REGIONS[region]
        style.line(axes, rows, "distance", "accuracy", color=color, marker=marker, label=label)
        # A label with an underscore is not in the legend.
        name = f"_best baseline, {region}"
        axes.plot(rows["distance"], rows["baseline"], color=color, lw=0.7, ls="--", label=name)
    axes.plot([], [], color=style.GRAY, lw=0.7, ls="--", label="best baseline, in their colors")
    style.percent_axis(axes)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel=f"distance from the training range, bins of {BIN}", ylabel="accuracy of the next token")
    style.legend(figure, [axes], ncols=2, columnspacing=0.8, handlelength=1.2)
    return figure
