"""The figure of a study: what each variant changes, as paired differences to the base."""

import textwrap
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


def draw(results: Results, compared: pl.DataFrame) -> Figure:
    """Draw the differences of the variants with their 95% intervals, hollow where they include 0, or means.

    There is a panel per loss and per template, titled with the mean of the base, with a row per variant.
    """
    # Differences need a run of the base, and the same programs in both.
    others = compared.drop_nulls("difference")
    has_differences = not (has_means(results) or others.is_empty())
    shown, names = (others, _DIFFERENCE) if has_differences else (compared, _MEAN)
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
        _draw_points(axes, panel, variants, names, looks)
        axes.set_yticks(range(len(variants)), [name.replace("_", " ") for name in reversed(variants)])
    what = "mean (%; losses in nats)"
    if names is _DIFFERENCE:
        what = f"difference to {results.base}, whose mean is above (percentage points; losses in nats)"
    figure.supxlabel(what, fontsize=8)
    if len(looks) > 1:
        style.legend(figure, grid.flat, ncols=len(looks))
    return figure


def has_means(results: Results) -> bool:
    """Say whether means are drawn, where differences would not answer.

    So it is with one seed or one variant, which pair nothing, and with a ceiling, which each variant has of
    its own.
    """
    pairs_nothing = any(results.rows[name].n_unique() == 1 for name in ("seed", "variant"))
    return pairs_nothing or CEILING in results.compare


def _draw_points(
    axes: Axes,
    part: pl.DataFrame,
    variants: list[str],
    names: Sequence[str],
    looks: Mapping[str, tuple[str, str]],
) -> None:
    """Draw points and intervals, the columns ``names``, from the top in the order of ``variants``."""
    # The metrics of a row are spread over half of it.
    offset = 0.5 * (0.5 - (pl.int_range(pl.len()) + 0.5) / pl.len()).over("variant")
    places = range(len(variants) - 1, -1, -1)
    row = pl.col("variant").replace_strict(variants, places, return_dtype=pl.Float64)
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
    axes.set_ylim(-0.6, len(variants) - 0.4)
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
