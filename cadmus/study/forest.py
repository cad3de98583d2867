"""The figure of a study: what each variant changes, as paired differences to the base."""

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cadmus.config.study import LOSSES
from cadmus.evaluate.questions import title
from cadmus.evaluate.statistics.regions import REGIONS
from cadmus.evaluate.statistics.results import CEILING
from cadmus.figures import style
from cadmus.study.results import Results

_COLUMNS = 4
_DIFFERENCE = ("difference", "difference_low", "difference_high")
_MEAN = ("mean", "low", "high")
_TITLE = 24
"""Characters of a line above a panel."""
_MANY = 20
"""Copies of a variant from which they share a row."""


def draw(results: Results, compared: pl.DataFrame) -> Figure:
    """Draw the differences of the variants with their 95% intervals, hollow where they include 0, or means.

    There is a panel per loss and per template, titled with the mean of the base. If one variant is drawn, all
    templates are rows of one panel. Many copies of a variant are points of one row.
    """
    # Differences need a run of the base, and the same programs in both.
    others = compared.drop_nulls("difference")
    has_differences = not (has_means(results) or others.is_empty())
    shown, names = (others, _DIFFERENCE) if has_differences else (compared, _MEAN)
    names_of_rows = _rows_of(shown["variant"].unique(maintain_order=True).to_list())
    shown = shown.with_columns(pl.col("variant").replace(names_of_rows))
    draw_panels = _draw_templates if shown["variant"].n_unique() == 1 else _draw_variants
    return draw_panels(results, compared, shown, names)


def has_means(results: Results) -> bool:
    """Say whether means are drawn, where differences would not answer.

    So it is with one seed or one variant, which pair nothing, and with a ceiling, which each variant has of
    its own.
    """
    pairs_nothing = any(results.rows[name].n_unique() == 1 for name in ("seed", "variant"))
    return pairs_nothing or CEILING in results.compare


def _rows_of(variants: list[str]) -> dict[str, str]:
    """Return the names of the rows of variants that do not have one of their own."""
    stems = {name: name.rpartition(" ")[0] for name in variants if name.rpartition(" ")[2].isdecimal()}
    counts = Counter(stems.values())
    return {name: f"{counts[stem]} of {stem}" for name, stem in stems.items() if counts[stem] >= _MANY}


def _draw_variants(
    results: Results, compared: pl.DataFrame, shown: pl.DataFrame, names: Sequence[str]
) -> Figure:
    """Draw a panel per loss and per template, with a row per variant."""
    variants = shown["variant"].unique(maintain_order=True).to_list()
    panels = _losses(shown).partition_by("metric", maintain_order=True)
    panels += _accuracies(shown).partition_by("template", maintain_order=True)
    columns = min(_COLUMNS, len(panels))
    height = 0.7 + (0.62 + 0.17 * len(variants)) * -(-len(panels) // columns)
    figure = Figure(figsize=(style.PAGE, height))
    grid = style.multiples(figure, len(panels), columns, sharey=True)
    looks = _looks(shown)
    for axes, panel in zip(grid.flat, panels, strict=False):
        name = textwrap.fill(_name(panel["template"][0] or panel["metric"][0]), _TITLE)
        if names is _DIFFERENCE:
            name += f"\n{_means(compared.filter(variant=results.base), panel)}"
        axes.set_title(name, fontsize=7)
        _draw_points(axes, panel, "variant", variants, names, looks)
        axes.set_yticks(range(len(variants)), [name.replace("_", " ") for name in reversed(variants)])
    what = "mean (%; losses in nats)"
    if names is _DIFFERENCE:
        what = f"difference to {results.base}, whose mean is above (percentage points; losses in nats)"
    figure.supxlabel(what, fontsize=8)
    if len(looks) > 1:
        style.legend(figure, grid.flat, ncols=len(looks))
    return figure


def _draw_templates(
    results: Results, compared: pl.DataFrame, shown: pl.DataFrame, names: Sequence[str]
) -> Figure:
    """Draw a panel with a row per loss, and one with a row per template."""
    variant = shown["variant"][0].replace("_", " ")
    title, of_accuracies = f"{variant}: mean at the left", "%"
    if names is _DIFFERENCE:
        title = f"{variant}: difference to {results.base}, whose mean is at the left"
        of_accuracies = "percentage points"
    parts = [(_losses(shown), "metric", "nats"), (_accuracies(shown), "template", of_accuracies)]
    parts = [(part, key, unit) for part, key, unit in parts if len(part)]
    heights = [part[key].n_unique() for part, key, _ in parts]
    figure = Figure(figsize=(style.PAGE, 0.5 + 0.45 * len(parts) + 0.2 * sum(heights)))
    panels = figure.subplots(len(parts), 1, squeeze=False, height_ratios=heights)[:, 0]
    looks = _looks(shown)
    for axes, (part, key, unit) in zip(panels, parts, strict=True):
        rows = part.partition_by(key, maintain_order=True)
        keys = [row[key][0] for row in rows]
        _draw_points(axes, part, key, keys, names, looks)
        base = compared.filter(variant=results.base)
        labels = [f"{_name(name)}, {_means(base, row)}" for name, row in zip(keys, rows, strict=True)]
        axes.set_yticks(range(len(rows)), labels[::-1])
        axes.set_xlabel(unit, fontsize=8)
    panels[0].set_title(title, fontsize=8)
    if len(looks) > 1:
        style.legend(figure, panels, ncols=len(looks))
    return figure


def _draw_points(
    axes: Axes,
    part: pl.DataFrame,
    key: str,
    rows: list[str],
    names: Sequence[str],
    looks: Mapping[str, tuple[str, str]],
) -> None:
    """Draw points and intervals, the columns ``names``, from the top in the order of ``rows`` by ``key``."""
    # The metrics of a row are spread over half of it.
    offset = 0.5 * (0.5 - (pl.int_range(pl.len()) + 0.5) / pl.len()).over(key)
    row = len(rows) - 1 - pl.col(key).replace_strict(rows, range(len(rows)), return_dtype=pl.Float64)
    placed = part.with_columns((row + offset).alias("height"))
    for points in placed.partition_by("metric", maintain_order=True):
        metric, heights = points["metric"][0], points["height"]
        color, marker = looks.get(metric, (style.GRAY, "o"))
        scale = 1 if metric in LOSSES else 100
        point, low, high = (scale * points[name] for name in names)
        axes.hlines(heights, low.fill_null(point), high.fill_null(point), color)
        label = None if metric in LOSSES else metric.replace("_", " ")
        axes.plot(point, heights, ls="", marker=marker, ms=3.5, color=color, label=label)
        if names is _DIFFERENCE:
            within = ~(low * high > 0).fill_null(value=False)
            axes.plot(point.filter(within), heights.filter(within), marker, ms=2, color="white")
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.grid(True, axis="x")
    if names is _DIFFERENCE:
        axes.axvline(0, color=style.GRAY, lw=0.8)


def _losses(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.filter(pl.col("metric").is_in(LOSSES))


def _accuracies(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.filter(~pl.col("metric").is_in(LOSSES))


def _looks(shown: pl.DataFrame) -> dict[str, tuple[str, str]]:
    """Return a color and a marker for each accuracy."""
    metrics = _accuracies(shown)["metric"].unique(maintain_order=True)
    return dict(zip(metrics, zip(style.COLORS, "os^D", strict=False), strict=False))


def _name(template_or_loss: str) -> str:
    return REGIONS.get(template_or_loss, title(template_or_loss))


def _means(base: pl.DataFrame, rows: pl.DataFrame) -> str:
    """Return the means of the base for the metrics of one template; one whose run is missing has none."""
    own = base.join(rows.select("metric", "template").unique(), ["metric", "template"], "semi")
    return ", ".join(
        f"{mean:.3f}" if metric in LOSSES else f"{100 * mean:.1f}%"
        for metric, mean in own.select("metric", "mean").iter_rows()
    )
