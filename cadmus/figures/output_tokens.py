"""Accuracy against the maximum number of output tokens of LLMs, with Cadmus as a line."""

from itertools import cycle

import polars as pl
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from cadmus.errors import InputError
from cadmus.evaluate.intervals import as_text
from cadmus.evaluate.numbers import with_accuracy
from cadmus.evaluate.regions import COLUMNS as GRID
from cadmus.evaluate.regions import summary
from cadmus.figures import reported, style

COLUMNS = (GRID, ("model", "symbols", "max_output_tokens", "programs", "correct"))
OPTIONAL = 1
"""The second file, of LLM answers, is there only when some were asked for."""

_COLORS = (style.ORANGE, style.GREEN, "#CC79A7", "#E69F00", "#56B4E9", "black")


@style.styled
def draw(grid: pl.DataFrame, llm: pl.DataFrame | None = None) -> Figure:
    """Cadmus from the grid's in-distribution square; one series for each LLM and kind of symbols."""
    cadmus = summary(grid).row(0, named=True)
    if cadmus["accuracy"] is None:
        raise InputError("the grid holds no pair within the training range; widen evaluate.grid")
    series = [] if llm is None else with_accuracy(llm).partition_by("model", "symbols")
    series.sort(key=lambda rows: (rows["model"][0], rows["symbols"][0] != "normal"))
    figure = Figure(figsize=(style.COLUMN, 2.6 + 0.14 * len(series)))
    axes = figure.subplots()
    axes.axhspan(cadmus["low"], cadmus["high"], color=style.BLUE, alpha=0.2, lw=0)
    interval = as_text(cadmus["accuracy"], cadmus["low"], cadmus["high"])
    axes.axhline(cadmus["accuracy"], color=style.BLUE, label=f"Cadmus, one output token: {interval}")
    for color, rows in zip(cycle(_COLORS), series, strict=False):
        rows = rows.sort("max_output_tokens")
        normal = rows["symbols"][0] == "normal"
        axes.errorbar(
            rows["max_output_tokens"],
            rows["accuracy"],
            yerr=[rows["accuracy"] - rows["low"], rows["high"] - rows["accuracy"]],
            color=color,
            marker="o" if normal else "^",
            ls="-" if normal else "--",
            elinewidth=0.7,
            label=f"{rows['model'][0]}, {rows['symbols'][0]} symbols",
        )
    axes.plot(
        [reported.GPT5_OUTPUT_TOKENS],
        [reported.GPT5_ACCURACY],
        color=style.GREY,
        marker="D",
        mfc="white",
        ls="none",
        ms=5,
        zorder=3,
        label="GPT-5, normal symbols: as reported in the paper, not run",
    )
    ticks = {500, 1_000, reported.GPT5_OUTPUT_TOKENS, 4_000}
    if series:
        ticks = {reported.GPT5_OUTPUT_TOKENS, *llm["max_output_tokens"]}
    else:
        axes.text(
            *(0.5, 0.4, "no LLM was run"),
            transform=axes.transAxes,
            ha="center",
            color=style.GREY,
            style="italic",
        )
        axes.set_xlim(400, 5_000)
    axes.set_xscale("log")
    axes.set_xticks(sorted(ticks), [f"{tick:,}" for tick in sorted(ticks)])
    axes.xaxis.set_minor_locator(NullLocator())
    style.percent_axis(axes)
    axes.set(xlabel="maximum output tokens", ylabel="accuracy")
    figure.legend(loc="outside lower center")
    return figure
