"""Shared panels: small multiples by sub-problem, and layer × token heat maps."""

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from cadmus.config import TEMPLATES
from cadmus.figures import style

LAYERS_WITH_TEXT = 8
"""Maximum number of layers for which :func:`layer_map` prints the values of the cells."""
METRICS = {"next_token": ("next token", style.BLUE, "o"), "verified": ("verified", style.ORANGE, "s")}


def plotted(results: pl.DataFrame, x: str) -> pl.DataFrame:
    """Return the rows that :func:`by_template` draws, sorted by template, metric and ``x``."""
    rows = results.filter(pl.col("template").is_in(TEMPLATES) & pl.col("metric").is_in(METRICS))
    return rows.sort(pl.col("template").cast(pl.Enum(TEMPLATES)), "metric", x)


def by_template(results: pl.DataFrame, x: str, label: str) -> Figure:
    """Draw accuracies with their intervals, one panel per sub-problem.

    Args:
        results: columns template, metric, accuracy, low, high and ``x``.
        x: column of the horizontal axis.
        label: label of the horizontal axis, with its unit.
    """
    figure = Figure(figsize=(style.PAGE, 4.6))
    panels = figure.subplots(3, 3, sharex=True, sharey=True)
    for axes, template in zip(panels.flat, TEMPLATES, strict=True):
        of_template = plotted(results, x).filter(template=template)
        for metric, (name, color, marker) in METRICS.items():
            rows = of_template.filter(metric=metric)
            style.line(axes, rows, x, "accuracy", color=color, marker=marker, label=name)
        if of_template.is_empty():
            style.not_tested(axes)
        axes.set_title(template.replace("_", " "))
        style.percent_axis(axes)
        # Room for the markers at 100%.
        axes.set_ylim(0, 1.06)
    figure.supxlabel(label, fontsize=8)
    figure.supylabel("accuracy", fontsize=8)
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure


def layer_map(
    axes: Axes,
    rows: pl.DataFrame,
    column: str,
    largest: float,
    text: str,
    factor: float = 1,
    smallest: float = 0,
    colors: str | None = None,
) -> AxesImage:
    """Draw a layer × token heat map, with lines between the two expressions and the comparator.

    Args:
        axes: axes to draw on.
        rows: columns layer (from 0), token (from 1) and ``column``, one row per cell; missing cells are
            empty.
        column: column with the values.
        largest: maximum of the color scale.
        text: format of the values in the cells, printed if there are few layers.
        factor: factor of the printed values.
        smallest: minimum of the color scale.
        colors: color map; the default is dark for low values and bright for high ones.
    """
    layers, tokens = style.largest(rows["layer"]) + 1, style.largest(rows["token"])
    cells = np.full((layers, tokens), np.nan)
    cells[rows["layer"], rows["token"] - 1] = rows[column]
    image = axes.imshow(cells, origin="lower", aspect="auto", vmin=smallest, vmax=largest, cmap=colors)
    if layers <= LAYERS_WITH_TEXT:
        for (layer, token), value in np.ndenumerate(cells):
            missing = np.isnan(value)
            color = "black" if missing or _bright(image, value) else "white"
            label = "–" if missing else format(factor * value, text)
            axes.text(token, layer, label, ha="center", va="center", color=color, fontsize=6)
    for boundary in (tokens // 2 - 0.5, tokens - 1.5):
        axes.axvline(boundary, color="white", lw=1)
    step = 1 if layers <= LAYERS_WITH_TEXT else 3
    names = style.layer_names(layers, step)
    axes.set_yticks(list(names), list(names.values()))
    axes.set(xlabel="token", xticks=range(tokens), xticklabels=range(1, tokens + 1))
    axes.spines[:].set_visible(False)
    return image


def _bright(image: AxesImage, value: float) -> bool:
    """Return whether black text is legible on the color of a value."""
    red, green, blue, _ = image.to_rgba(np.asarray(value))
    return bool(0.299 * red + 0.587 * green + 0.114 * blue > 0.5)
