"""Shared panels: small multiples by question, and layer × token heat maps."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from cadmus.evaluate.questions import in_order, named, title
from cadmus.evaluate.statistics.results import CEILING, MODEL, best_baseline
from cadmus.figures import reported, style

EXAMPLE = "62*4+54*4-="
"""A program of the form of the comparison grid, whose tokens label those of all."""
_COLUMNS = 4
_MARKED_FROM = 20
"""Programs from which a point is drawn: fewer say little."""
LEAST = 1e-3
"""Smallest error that is drawn."""


class Line(NamedTuple):
    """A line of every panel of :func:`by_question`: accuracies by a metric, of the model or of a baseline."""

    of_model: bool
    metric: str
    label: str
    color: str
    marker: str = ""
    style: str = "-"
    band: bool = True


SOLVED = (
    Line(True, "solved", "model, solved", style.BLUE, "o"),
    Line(False, "solved", "best baseline", style.GRAY),
    Line(True, CEILING, "best possible", "black", style="--", band=False),
)
"""The lines of :func:`plotted`."""


def plotted(results: pl.DataFrame, x: str) -> pl.DataFrame:
    """Return the rows that :func:`by_question` draws: model, best possible answer and best baseline."""
    shown = pl.col("metric").eq("solved") | (pl.col("metric").eq(CEILING) & (pl.col("accuracy") < 1))
    parts = [
        pl.concat([part.filter(shown, policy=MODEL), best_baseline(part)])
        for _, part in results.group_by(["question"], maintain_order=True)
    ]
    return in_order(pl.concat(parts), pl.col("policy") != MODEL, x)


def by_question(
    results: pl.DataFrame, x: str, label: str, error: bool = False, lines: Sequence[Line] = SOLVED
) -> Figure:
    """Draw accuracies with intervals over column ``x``, one panel per question.

    Points of fewer than 20 programs are left out, and panels without two points. With ``error``, the error,
    1 - accuracy, is drawn on a logarithmic axis, with that of the paper.
    """
    results = results.filter(pl.col("programs") >= _MARKED_FROM)
    shown = [
        str(question)
        for (question,), part in results.filter(policy=MODEL).group_by(["question"], maintain_order=True)
        if part[x].n_unique() > 1
    ]
    figure = Figure(figsize=(style.PAGE, 0.9 + 1.45 * max(1, -(-len(shown) // _COLUMNS))))
    panels = style.multiples(figure, len(shown), _COLUMNS, sharex=True, sharey=True)
    for axes, question in zip(panels.flat, shown, strict=False):
        of_question = results.filter(question=question)
        for line in lines:
            rows = of_question.filter((pl.col("policy") == MODEL) == line.of_model, metric=line.metric)
            look = {"color": line.color, "marker": line.marker, "label": line.label, "ls": line.style}
            style.line(axes, _errors(rows) if error else rows, x, "accuracy", band=line.band, **look)
        axes.set_title(title(question), fontsize=7)
        if error:
            axes.set_yscale("log")
            axes.set_ylim(LEAST / 1.3, 1.3)
            axes.set_yticks([LEAST, 0.01, 0.1, 1], ["≤ 0.1%", "1%", "10%", "100%"])
            axes.grid(True, axis="y")
            if paper := reported.TABLE3.get(named(question).template):
                # Accuracies of the paper have two digits, so that 1.0 is an error of at most 0.5%.
                look = {"color": style.ORANGE, "ls": ":", "label": "paper (its 100%: at most 0.5%)"}
                axes.axhline(max(1 - paper, 0.005), lw=0.9, **look)
        else:
            style.percent_axis(axes)
    # The lowest panel of each column: the last row may be incomplete.
    for axes in panels.flat[max(0, len(shown) - _COLUMNS) : len(shown)]:
        axes.tick_params(labelbottom=True)
    if not shown:
        style.not_tested(panels[0, 0])
    figure.supxlabel(label, fontsize=8)
    figure.supylabel("error, 1 - accuracy" if error else "accuracy", fontsize=8)
    style.legend(figure, panels.flat, ncols=4 if len(lines) < 5 else 3)
    return figure


def _errors(rows: pl.DataFrame) -> pl.DataFrame:
    """Return errors for accuracies, those below :data:`LEAST` as large as it."""
    errors = {"accuracy": "accuracy", "low": "high", "high": "low"}
    return rows.with_columns((1 - pl.col(column)).clip(LEAST).alias(name) for name, column in errors.items())


def layer_map(
    axes: Axes, rows: pl.DataFrame, column: str, text: str, factor: float = 1, **look: Any
) -> AxesImage:
    """Draw a layer × token heat map, with lines between the two expressions and the comparator.

    There is one row per cell; layers count from 0, tokens from 1. Values times ``factor`` are printed in the
    format ``text``.
    """
    layers, tokens = style.largest(rows["layer"]) + 1, style.largest(rows["token"])
    cells = np.full((layers, tokens), np.nan)
    cells[rows["layer"], rows["token"] - 1] = rows[column]
    image = axes.imshow(cells, origin="lower", aspect="auto", **look)
    for (layer, token), value in np.ndenumerate(cells):
        red, green, blue, _ = image.to_rgba(np.asarray(value))
        # White text is not legible on a bright color, or on a missing cell.
        bright = np.isnan(value) or 0.299 * red + 0.587 * green + 0.114 * blue > 0.5
        label = "–" if np.isnan(value) else format(factor * value, text)
        color = "black" if bright else "white"
        axes.text(token, layer, label, ha="center", va="center", color=color, fontsize=6)
    for boundary in (tokens // 2 - 0.5, tokens - 1.5):
        axes.axvline(boundary, color="white", lw=1)
    axes.set_yticks(range(layers), ["embedding", *(f"block {layer}" for layer in range(1, layers))])
    token_axis(axes, range(tokens))
    axes.spines[:].set_visible(False)
    return image


def token_axis(axes: Axes, ticks: range) -> None:
    """Label tokens by their numbers, below those of :data:`EXAMPLE`."""
    axes.set_xticks(ticks, [f"{symbol}\n{token}" for token, symbol in enumerate(EXAMPLE, 1)])
    axes.set_xlabel("token of an example, and its number")
