"""The figure of a study: what each variant changes, as paired differences to the base."""

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from cadmus.config.study import LOSSES
from cadmus.evaluate.questions import title
from cadmus.evaluate.regions import REGIONS
from cadmus.figures import style
from cadmus.study.results import Results

_COLUMNS = 4


def draw(results: Results, compared: pl.DataFrame) -> Figure:
    """Draw a panel per loss and per template: the differences of the variants with their 95% intervals.

    Each title has the mean of the base. A study without differences shows the means instead. Points are
    hollow where the interval includes 0.
    """
    # There are none without a run of the base, or where it has no such programs.
    others = compared.drop_nulls("difference")
    names = ("difference", "difference_low", "difference_high") if len(others) else ("mean", "low", "high")
    shown = others if len(others) else compared
    variants = shown["variant"].unique(maintain_order=True).to_list()
    is_loss = pl.col("metric").is_in(LOSSES)
    accuracies = shown.filter(~is_loss)["metric"].unique(maintain_order=True)
    looks = dict(zip(accuracies, zip(style.COLORS, "os^D", strict=False), strict=False))
    panels = shown.filter(is_loss).partition_by("metric", maintain_order=True)
    panels += shown.filter(~is_loss).partition_by("template", maintain_order=True)
    columns = min(_COLUMNS, len(panels))
    figure = Figure(figsize=(style.PAGE, 0.7 + (0.62 + 0.17 * len(variants)) * -(-len(panels) // columns)))
    grid = style.multiples(figure, len(panels), columns, sharey=True)
    for axes, panel in zip(grid.flat, panels, strict=False):
        of_base = compared.filter(variant=results.base, template=panel["template"][0])
        means, series = [], panel.partition_by("metric", maintain_order=True)
        for number, part in enumerate(series):
            metric = part["metric"][0]
            color, marker = looks.get(metric, (style.GRAY, "o"))
            scale = 1 if metric in LOSSES else 100
            # A base whose run is missing has no mean.
            for mean in of_base.filter(metric=metric)["mean"]:
                means.append(f"{mean:.3f}" if metric in LOSSES else f"{100 * mean:.1f}%")
            # The metrics of a variant are spread over half a row.
            shift = 0.5 * (0.5 - (number + 0.5) / len(series))
            places = [len(variants) - 1 - variants.index(name) + shift for name in part["variant"]]
            point, low, high = (scale * part[name] for name in names)
            axes.hlines(places, low.fill_null(point), high.fill_null(point), color)
            label = None if metric in LOSSES else metric.replace("_", " ")
            axes.plot(point, places, ls="", marker=marker, ms=3.5, color=color, label=label)
            within = ~(low * high > 0).fill_null(value=False).to_numpy()
            axes.plot(point.filter(within), np.array(places)[within], marker, ms=2, color="white")
        name = panel["template"][0] or panel["metric"][0].replace("_", " ")
        name = REGIONS.get(name, title(name)).replace("outside, ", "outside,\n")
        axes.set_title(f"{name}\n{', '.join(means)}", fontsize=7)
        axes.set_yticks(range(len(variants)), [name.replace("_", " ") for name in reversed(variants)])
        axes.set_ylim(-0.6, len(variants) - 0.4)
        axes.grid(True, axis="x")
        if len(others):
            axes.axvline(0, color=style.GRAY, lw=0.8)
    what = f"difference to {results.base}, whose mean is above" if len(others) else "mean"
    figure.supxlabel(f"{what} (percentage points; losses in nats)", fontsize=8)
    if len(accuracies) > 1:
        style.legend(figure, grid.flat, ncols=len(accuracies))
    return figure
