"""Panels that several figures have: small multiples by sub-problem, and maps of layers and tokens."""

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from cadmus.config import TEMPLATES
from cadmus.figures import style

LAYERS_WITH_TEXT = 8
"""Layers up to which every cell of a map carries its number."""
METRICS = {"next_token": ("next token", style.BLUE, "o"), "verified": ("verified", style.ORANGE, "s")}


def drawn(numbers: pl.DataFrame, x: str) -> pl.DataFrame:
    """The rows that :func:`by_template` draws, in their order."""
    rows = numbers.filter(pl.col("template").is_in(TEMPLATES) & pl.col("metric").is_in(METRICS))
    places = {template: place for place, template in enumerate(TEMPLATES)}
    return rows.sort(pl.col("template").replace_strict(places, return_dtype=pl.Int64), "metric", x)


def by_template(numbers: pl.DataFrame, x: str, label: str) -> Figure:
    """Accuracies and their intervals over a column, a panel for each sub-problem.

    Args:
        numbers: template, metric, accuracy, low, high and the column.
        x: the column.
        label: what it is called, with its unit.
    """
    figure = Figure(figsize=(style.PAGE, 4.6))
    panels = figure.subplots(3, 3, sharex=True, sharey=True)
    for axes, template in zip(panels.flat, TEMPLATES, strict=True):
        of_template = drawn(numbers, x).filter(template=template)
        for metric, (name, color, marker) in METRICS.items():
            rows = of_template.filter(metric=metric)
            style.line(axes, rows, x, "accuracy", color=color, marker=marker, label=name)
        if of_template.is_empty():
            style.not_tested(axes)
        axes.set_title(template.replace("_", " "))
        style.percent_axis(axes)
        # Room for the markers of what is always right.
        axes.set_ylim(0, 1.06)
    figure.supxlabel(label, fontsize=8)
    figure.supylabel("accuracy on held-out programs", fontsize=8)
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure


def layer_map(
    axes: Axes, rows: pl.DataFrame, column: str, largest: float, text: str, factor: float = 1
) -> AxesImage:
    """A map of layers (upwards) and tokens, with lines between the two expressions and the comparator.

    A cell without a row is empty.

    Args:
        axes: where.
        rows: layer (from 0), token (from 1) and the column, one row a cell.
        column: what is shown, from 0.
        largest: the end of the scale.
        text: format of the numbers in the cells, where there are few layers.
        factor: what they are multiplied with.
    """
    layers, tokens = style.largest(rows["layer"]) + 1, style.largest(rows["token"])
    cells = np.full((layers, tokens), np.nan)
    cells[rows["layer"], rows["token"] - 1] = rows[column]
    image = axes.imshow(cells, origin="lower", aspect="auto", vmin=0, vmax=largest)
    if layers <= LAYERS_WITH_TEXT:
        for (layer, token), value in np.ndenumerate(cells):
            missing = np.isnan(value)
            color = "black" if missing or value > largest / 2 else "white"
            number = "–" if missing else format(factor * value, text)
            axes.text(token, layer, number, ha="center", va="center", color=color, fontsize=6)
    for boundary in (tokens // 2 - 0.5, tokens - 1.5):
        axes.axvline(boundary, color="white", lw=1)
    step = 1 if layers <= LAYERS_WITH_TEXT else 3
    names = style.layer_names(layers, step)
    axes.set_yticks(list(names), list(names.values()))
    axes.set(xlabel="token", xticks=range(tokens), xticklabels=range(1, tokens + 1))
    axes.spines[:].set_visible(False)
    return image
