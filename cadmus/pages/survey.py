"""Statistics of a finished dataset, and the figures of its report."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from cadmus import isa
from cadmus.config import OOD
from cadmus.dataset.manifest import read_file, read_manifest
from cadmus.evaluate.questions import title
from cadmus.figures import style
from cadmus.programs import Programs
from cadmus.tools import progress

EXAMPLES = 3
"""Programs shown per template: the first ones of its first training shard."""
FATES = {
    "kept": "kept",
    "surplus": "surplus",
    "duplicates": "duplicates, removed",
    "ood": "excluded by an OOD rule",
    "rejected": "not true",
    "other_split": "in another split",
    "too_long": "too long",
    "unfit": "incomplete",
}
"""Titles of the fates of a candidate, the best first; fields of :class:`cadmus.dataset.sampler.Counts`."""
_COLORS = (style.BLUE, "#56B4E9", "#E69F00", "#CC79A7", style.GREEN, style.ORANGE, "#999999", "#DDDDDD")


class Survey(NamedTuple):
    """Statistics of a dataset."""

    manifest: dict[str, Any]
    size: int
    """Bytes of all shards."""
    counts: pl.DataFrame
    """Columns split, template, programs, distinct, sampled, duplicates_kept and the :data:`FATES`."""
    lengths: pl.DataFrame
    """Columns split, template, length, programs."""
    values: pl.DataFrame
    """Columns split, template, variable (x or y), value, programs."""
    instructions: pl.DataFrame
    """Columns template, symbol, count and share over the training programs, of unused instructions too."""
    examples: dict[str, list[dict[str, Any]]]
    """Rows by template, with the columns program, prompt_length, x and y."""


def survey(directory: Path | str) -> Survey:
    """Read every shard of a dataset once, and hold only one in memory."""
    directory = Path(directory)
    manifest = read_manifest(directory)
    counted, symbols = list[pl.DataFrame](), dict[str, np.ndarray]()
    examples = dict[str, list[dict[str, Any]]]()
    for file in progress("read", manifest["files"], unit="shard"):
        split, template = file["split"], file["template"]
        table = read_file(directory, file, ["program", "prompt_length", "x", "y"])
        rows = pl.DataFrame(table)
        numbers = rows.select("x", "y", length=pl.col("program").str.len_bytes()).cast(pl.Int64).unpivot()
        of_shard = numbers.drop_nulls().group_by("variable", "value").agg(programs=pl.len())
        counted.append(of_shard.with_columns(split=pl.lit(split), template=pl.lit(template)))
        if split == "train":
            data = Programs.from_arrow(table["program"]).data
            symbols[template] = symbols.get(template, 0) + np.bincount(data, minlength=256)
            examples.setdefault(template, rows.head(EXAMPLES).to_dicts())
    # The manifest has no OOD counts without OOD rules.
    counts = pl.DataFrame(
        {"split": split, "template": template, "ood": 0, **of_template}
        for split, templates in manifest["splits"].items()
        for template, of_template in templates.items()
    ).select("split", "template", "programs", "distinct", "sampled", "duplicates_kept", *FATES)
    keys, number = ["split", "template"], ["variable", "value"]
    total = pl.concat(counted).group_by(*keys, *number).agg(pl.sum("programs")).sort(number)
    total = counts.select(keys).join(total, on=keys, maintain_order="left_right")
    shown = [symbol for symbol in isa.BY_SYMBOL if symbol != isa.END]
    used = [(template, symbol, int(of[ord(symbol)])) for template, of in symbols.items() for symbol in shown]
    share = pl.col("count") / pl.col("count").sum().over("template")
    return Survey(
        manifest,
        sum((directory / file["file"]).stat().st_size for file in manifest["files"]),
        counts,
        total.filter(variable="length").drop("variable").rename({"value": "length"}),
        total.filter(pl.col("variable") != "length"),
        pl.DataFrame(used, ["template", "symbol", "count"], orient="row").with_columns(share=share),
        examples,
    )


def acceptance(survey: Survey) -> Figure:
    """Draw one bar per template: the fates of the candidates for training programs."""
    counts = survey.counts.filter(split="train")
    figure = Figure(figsize=(style.PAGE, 0.9 + 0.24 * len(counts)))
    axes = figure.subplots()
    left = np.zeros(len(counts))
    names = list(map(title, counts["template"]))
    for (fate, label), color in zip(FATES.items(), _COLORS, strict=True):
        share = (counts[fate] / counts["sampled"]).to_numpy()
        if share.any():
            axes.barh(names, share, left=left, color=color, height=0.72, label=label)
        left += share
    axes.set(xlim=(0, 1), xlabel="fraction of the candidates")
    axes.xaxis.set_major_formatter(style.EXACT_PERCENT)
    axes.invert_yaxis()
    axes.spines.left.set_visible(False)
    axes.tick_params(left=False)
    figure.legend(loc="outside upper center", ncols=4)
    return figure


def lengths(survey: Survey) -> Figure:
    """Draw a histogram of lengths per template, with a line for OOD programs."""
    longest = style.largest(survey.lengths["length"])

    def draw(axes: Axes, template: str) -> None:
        train, ood = (survey.lengths.filter(template=template, split=split) for split in ("train", OOD))
        numbers, share = _shares(train, "length")
        axes.bar(numbers, share, width=0.9, color=style.BLUE, label="train")
        if len(ood):
            axes.stairs(*_steps(ood, "length"), color=style.ORANGE, lw=0.9, label="OOD")
        mean = f"mean {numbers @ share:.1f}"
        axes.text(1, 0.98, mean, transform=axes.transAxes, ha="right", va="top", fontsize=7, color=style.GREY)
        axes.set(title=title(template), xlim=(0, longest + 1))

    figure = _panels(list(survey.examples), draw, "instructions")
    if OOD in survey.lengths["split"]:
        style.legend(figure, figure.axes, ncols=2, reverse=True)
    return figure


def values(survey: Survey) -> Figure:
    """Draw the compared values x and y per template that has any, with the configured interval."""
    interval = survey.manifest["dataset"]["values"]
    low, high = interval["low"], interval["high"]
    seen = [low, high, *survey.values["value"]]
    lowest, highest = min(seen), max(seen)
    margin = 1 + (highest - lowest) / 8
    configured = f"configured: {low} to {high}".replace("-", "\N{MINUS SIGN}")

    def draw(axes: Axes, template: str) -> None:
        axes.axvspan(low - 0.5, high + 0.5, color="#EEEEEE", lw=0, label=configured)
        # x and y may coincide: the thin line is drawn over the thick one.
        for variable, color, width in (("x", style.BLUE, 2.0), ("y", style.ORANGE, 0.8)):
            for split, look, name in (("train", "-", variable), (OOD, ":", f"{variable}, OOD")):
                rows = survey.values.filter(template=template, variable=variable, split=split)
                if len(rows):
                    steps = _steps(rows, "value")
                    axes.stairs(*steps, color=color, ls=look, lw=width, baseline=None, label=name)
        axes.set(title=title(template), xlim=(lowest - margin, highest + margin))

    templates = [name for name in survey.examples if name in survey.values["template"]]
    figure = _panels(templates, draw, "compared value", sharey=True)
    if templates:
        style.legend(figure, figure.axes, ncols=3)
    return figure


def instructions(survey: Survey) -> Figure:
    """Draw a heat map: the frequency of each instruction in the training programs of each template."""
    table = survey.instructions.pivot("symbol", index="template", values="share")
    templates, symbols = table["template"].to_list(), table.columns[1:]
    share = table.drop("template").to_numpy()
    figure = Figure(figsize=(style.PAGE, 1.3 + 0.2 * len(templates)))
    axes = figure.subplots()
    image = axes.imshow(np.ma.masked_equal(share, 0), norm=LogNorm(), aspect="auto")
    axes.set_yticks(range(len(templates)), list(map(title, templates)))
    axes.set_xticks(range(len(symbols)), symbols, family="monospace", fontsize=6)
    axes.tick_params(length=0)
    axes.spines[:].set(visible=True, color=style.GREY, linewidth=0.5)
    groups = [isa.BY_SYMBOL[symbol].group for symbol in symbols]
    names = list(dict.fromkeys(groups))
    axes.vlines([groups.index(name) - 0.5 for name in names[1:]], *axes.get_ylim(), color=style.GREY, lw=0.5)
    centres = [groups.index(name) + (groups.count(name) - 1) / 2 for name in names]
    above = axes.secondary_xaxis("top")
    above.spines.top.set_visible(False)
    # On two levels, since neighbors are close.
    for which, first, length in (("major", 0, 11), ("minor", 1, 2)):
        above.set_xticks(centres[first::2], names[first::2], minor=which == "minor", fontsize=6)
        above.tick_params(which=which, length=length, width=0.5, color=style.GREY, labelcolor=style.GREY)
    bar = style.colorbar(figure, image, axes, pad=0.01, aspect=14)
    bar.ax.yaxis.set_major_formatter(style.EXACT_PERCENT)
    bar.set_label("fraction of the instructions")
    never = Patch(facecolor="white", edgecolor=style.GREY, lw=0.5, label="never used")
    figure.legend(handles=[never], loc="outside lower right")
    return figure


DRAWINGS = (acceptance, lengths, values, instructions)
"""The figures of a report, in the order of :data:`cadmus.pages.FIGURES`."""


def _shares(rows: pl.DataFrame, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers in column ``name``, ascending, and the fraction of programs with each."""
    programs = rows["programs"].to_numpy()
    return rows[name].to_numpy(), programs / programs.sum()


def _steps(rows: pl.DataFrame, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return heights and edges for ``stairs``: one step per integer from the smallest to the largest."""
    numbers, share = _shares(rows, name)
    heights = np.bincount(numbers - numbers[0], share)
    return heights, np.arange(numbers[0], numbers[-1] + 2) - 0.5


def _panels(
    templates: Sequence[str], draw: Callable[[Axes, str], None], x: str, sharey: bool = False
) -> Figure:
    columns = 3 if len(templates) > 4 else min(2, max(1, len(templates)))
    figure = Figure(figsize=(style.PAGE if columns > 1 else style.COLUMN, 1))
    grid = style.multiples(figure, len(templates), columns, sharey=sharey)
    figure.set_figheight(0.5 + 1.35 * len(grid))
    for axes, template in zip(grid.flat, templates, strict=False):
        draw(axes, template)
        axes.yaxis.set_major_formatter(style.EXACT_PERCENT)
        axes.yaxis.set_major_locator(MaxNLocator(4))
        axes.xaxis.set_major_locator(MaxNLocator(7, integer=True, steps=[1, 2, 5, 10]))
    for axes in grid.flat[: len(templates)]:
        axes.set_ylim(bottom=0)
    if not templates:
        grid[0, 0].text(0.5, 0.5, "none in this dataset", ha="center", color=style.GREY)
    figure.supxlabel(x, fontsize=8)
    figure.supylabel("fraction of the programs", fontsize=8)
    return figure
