"""A figure per factor of a study: every metric against the levels of the factor."""

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from cadmus.config.study import LOSSES, VARIANTS
from cadmus.evaluate.questions import title
from cadmus.figures import style
from cadmus.study.comparison import compare
from cadmus.study.results import Results

_COLORS = (style.BLUE, style.ORANGE, style.GREEN, "#CC79A7")
_MARKERS = ("o", "s", "^", "D", "v", "P")
_COLUMNS = 4
_SPREAD = 0.5
"""Height, in rows, over which the points of a level are spread."""


def data(results: Results, factor: str) -> pl.DataFrame:
    """Return the comparison with ``level``, that of ``factor``, and ``others``, those of all others."""
    others = pl.concat_str([pl.lit("")] + [_named(name) for name in results.factors if name != factor])
    levels = results.rows.select("variant", pl.col(factor).alias("level"), others.alias("others"))
    return compare(results).join(levels.unique(), "variant", "left", maintain_order="left")


def _named(factor: str) -> pl.Expr:
    name = "" if factor == VARIANTS else f"{factor.rpartition('.')[2]}="
    return pl.lit(f", {name}") + pl.col(factor)


def draw(results: Results, factor: str) -> Figure:
    """Draw a panel per loss and per template, with means over seeds and their 95% intervals.

    Levels that are numbers are on the horizontal axis, names on the vertical one. Markers tell the levels of
    the other factors apart.
    """
    compared = data(results, factor)
    bounded = pl.col("low", "high").clip(0, 1).fill_null(pl.col("mean"))
    losses = compared.filter(pl.col("metric").is_in(LOSSES))
    accuracies = compared.filter(~pl.col("metric").is_in(LOSSES)).with_columns(bounded)
    levels = compared["level"].unique(maintain_order=True).to_list()
    numeric = compared["level"].cast(pl.Float64, strict=False).null_count() == 0
    panels = [
        *((str(metric), part) for (metric,), part in losses.group_by(["metric"], maintain_order=True)),
        *(
            (title(str(name)), part)
            for (name,), part in accuracies.group_by(["template"], maintain_order=True)
        ),
    ]
    rows = -(-len(panels) // _COLUMNS)
    height = 1.5 if numeric else 0.6 + 0.2 * len(levels)
    figure = Figure(figsize=(style.PAGE, 0.8 + height * rows))
    grid = figure.subplots(rows, min(_COLUMNS, len(panels)), squeeze=False, sharey=not numeric)
    legend: dict[str, Line2D] = {}
    for axes, (name, part) in zip(grid.flat, panels, strict=False):
        axes.set_title(name.replace("_", " "), fontsize=7)
        (_lines if numeric else _points)(axes, part, levels, legend)
        if part["metric"][0] not in LOSSES:
            _accuracy_axis(axes, part, numeric, legend)
        axes.grid(True, axis="y" if numeric else "x")
    for axes in grid.flat[len(panels) :]:
        axes.set_axis_off()
    if numeric:
        figure.supxlabel(factor, fontsize=8)
    figure.legend(legend.values(), legend.keys(), loc="outside upper center", ncols=3)
    return figure


def _series(part: pl.DataFrame) -> "list[tuple[pl.DataFrame, str, str, str]]":
    """Return the rows of each metric and combination of the other factors, with label, color and marker."""
    series = []
    for of_metric, color in zip(part.partition_by("metric", maintain_order=True), _COLORS, strict=False):
        metric = of_metric["metric"][0]
        color = style.GREY if metric in LOSSES else color
        for number, shown in enumerate(of_metric.partition_by("others", maintain_order=True)):
            label = f"{metric}{shown['others'][0]}".replace("_", " ")
            series.append((shown, label, color, _MARKERS[number % len(_MARKERS)]))
    return series


def _points(axes: Axes, part: pl.DataFrame, levels: list[str], legend: dict[str, Line2D]) -> None:
    """Draw a point and its interval per variant, the first level at the top."""
    series = _series(part)
    for number, (shown, label, color, marker) in enumerate(series):
        shift = _SPREAD * (0.5 - (number + 0.5) / len(series))
        places = [len(levels) - 1 - levels.index(level) + shift for level in shown["level"]]
        axes.hlines(
            places, shown["low"].fill_null(shown["mean"]), shown["high"].fill_null(shown["mean"]), color
        )
        (legend[label],) = axes.plot(shown["mean"], places, ls="", marker=marker, ms=3, color=color)
    axes.set_yticks(range(len(levels)), [level.replace("_", " ") for level in reversed(levels)])
    axes.set_ylim(-0.6, len(levels) - 0.4)


def _lines(axes: Axes, part: pl.DataFrame, levels: list[str], legend: dict[str, Line2D]) -> None:
    """Draw the mean and its interval over the levels."""
    for shown, label, color, marker in _series(part):
        drawn = shown.with_columns(
            pl.col("level").cast(pl.Float64), pl.col("low", "high").fill_null(pl.col("mean"))
        ).sort("level")
        (legend[label],) = style.line(axes, drawn, "level", "mean", color=color, marker=marker, label=label)


def _accuracy_axis(axes: Axes, part: pl.DataFrame, numeric: bool, legend: dict[str, Line2D]) -> None:
    """Format the axis as percentages and draw the best baseline of the first metric."""
    metric = part["metric"][0]
    (axes.yaxis if numeric else axes.xaxis).set_major_formatter(style.PERCENT)
    (axes.set_ylim if numeric else axes.set_xlim)(-0.03, 1.06)
    baseline = part.filter(metric=metric)["baseline"].mean()
    if isinstance(baseline, float):
        mark = axes.axhline if numeric else axes.axvline
        label = f"best baseline, {metric.replace('_', ' ')}"
        legend[label] = mark(baseline, color=style.GREY, ls=":", lw=1)
