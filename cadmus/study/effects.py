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


def data(results: Results, factor: str) -> pl.DataFrame:
    """Return the comparison with ``level``, that of ``factor``, and ``others``, those of all others."""
    names = {name: "" if name == VARIANTS else f"{name.rpartition('.')[2]}=" for name in results.factors}
    named = [pl.lit(f", {text}") + pl.col(name) for name, text in names.items() if name != factor]
    others = pl.concat_str([pl.lit(""), *named])
    levels = results.rows.select("variant", pl.col(factor).alias("level"), others.alias("others"))
    return compare(results).join(levels.unique(), "variant", "left", maintain_order="left")


def draw(results: Results, factor: str) -> Figure:
    """Draw a panel per loss and per template, with means over seeds and their 95% intervals.

    Levels that are numbers are on the horizontal axis, names on the vertical one. Markers tell the levels of
    the other factors apart.
    """
    is_loss = pl.col("metric").is_in(LOSSES)
    bounds = pl.when(is_loss).then(pl.col("low", "high")).otherwise(pl.col("low", "high").clip(0, 1))
    compared = data(results, factor).with_columns(bounds.fill_null(pl.col("mean")))
    levels = compared["level"].unique(maintain_order=True).to_list()
    numeric = compared["level"].cast(pl.Float64, strict=False).null_count() == 0
    panels = compared.filter(is_loss).partition_by("metric", maintain_order=True)
    panels += compared.filter(~is_loss).partition_by("template", maintain_order=True)
    rows = -(-len(panels) // _COLUMNS)
    height = 1.5 if numeric else 0.6 + 0.2 * len(levels)
    figure = Figure(figsize=(style.PAGE, 0.8 + height * rows))
    grid = style.multiples(figure, len(panels), min(_COLUMNS, len(panels)), sharey=not numeric)
    legend: dict[str, Line2D] = {}
    for axes, part in zip(grid.flat, panels, strict=False):
        metric, template = part.select("metric", "template").row(0)
        name = metric if metric in LOSSES else title(template)
        axes.set_title(name.replace("_", " "), fontsize=7)
        (_lines if numeric else _points)(axes, part, levels, legend)
        if metric not in LOSSES:
            (axes.yaxis if numeric else axes.xaxis).set_major_formatter(style.PERCENT)
            (axes.set_ylim if numeric else axes.set_xlim)(-0.03, 1.06)
            baseline = part.filter(metric=metric)["baseline"].mean()
            if isinstance(baseline, float):
                mark = axes.axhline if numeric else axes.axvline
                label = f"best baseline, {metric.replace('_', ' ')}"
                legend[label] = mark(baseline, color=style.GREY, ls=":", lw=1)
        axes.grid(True, axis="y" if numeric else "x")
    if numeric:
        figure.supxlabel(factor, fontsize=8)
    figure.legend(legend.values(), legend.keys(), loc="outside upper center", ncols=3)
    return figure


def _series(part: pl.DataFrame) -> list[tuple[pl.DataFrame, str, str, str]]:
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
        # The points of a level are spread over half a row.
        shift = 0.5 * (0.5 - (number + 0.5) / len(series))
        places = [len(levels) - 1 - levels.index(level) + shift for level in shown["level"]]
        axes.hlines(places, shown["low"], shown["high"], color)
        (legend[label],) = axes.plot(shown["mean"], places, ls="", marker=marker, ms=3, color=color)
    axes.set_yticks(range(len(levels)), [level.replace("_", " ") for level in reversed(levels)])
    axes.set_ylim(-0.6, len(levels) - 0.4)


def _lines(axes: Axes, part: pl.DataFrame, levels: list[str], legend: dict[str, Line2D]) -> None:
    """Draw the mean and its interval over the levels."""
    for shown, label, color, marker in _series(part):
        drawn = shown.with_columns(pl.col("level").cast(pl.Float64)).sort("level")
        (legend[label],) = style.line(axes, drawn, "level", "mean", color=color, marker=marker, label=label)
