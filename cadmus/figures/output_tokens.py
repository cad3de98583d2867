"""Accuracy against the maximum number of output tokens of LLMs, with Cadmus as a line."""

import polars as pl
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from cadmus.errors import InputError
from cadmus.evaluate.intervals import as_text
from cadmus.evaluate.numbers import with_accuracy
from cadmus.evaluate.regions import COLUMNS as GRID
from cadmus.evaluate.regions import summary
from cadmus.figures import reported, style

COLUMNS = (GRID, ("model", "symbols", "max_output_tokens", "programs", "correct"))
OPTIONAL = 1
"""The second file, of LLM answers, is there only when some were asked for."""


@style.styled
def draw(grid: pl.DataFrame, llm: pl.DataFrame | None = None) -> Figure:
    """Cadmus from the grid's in-distribution square; one series for each LLM and kind of symbols."""
    cadmus = summary(grid).row(0, named=True)
    if cadmus["accuracy"] is None:
        raise InputError("the grid holds no pair within the training range; widen evaluate.grid")
    figure = Figure(figsize=(style.COLUMN, 2.8))
    axes = figure.subplots()
    axes.axhspan(cadmus["low"], cadmus["high"], color=style.BLUE, alpha=0.2, lw=0)
    axes.axhline(
        cadmus["accuracy"],
        color=style.BLUE,
        label=f"Cadmus, one output token: {as_text(cadmus['accuracy'], cadmus['low'], cadmus['high'])}",
    )
    axes.plot(
        [reported.GPT5_OUTPUT_TOKENS],
        [reported.GPT5_ACCURACY],
        color=style.GREY,
        marker="D",
        mfc="white",
        ls="none",
        ms=5,
        label="GPT-5, normal symbols: as reported in the paper, not run",
    )
    if llm is None or llm.is_empty():
        axes.text(
            *(0.5, 0.4, "no LLM was run"),
            transform=axes.transAxes,
            ha="center",
            color=style.GREY,
            style="italic",
        )
        axes.set_xlim(100, 10_000)
    else:
        cycle = (style.ORANGE, style.GREEN, "#CC79A7", "#E69F00", "#56B4E9", "black")
        series = with_accuracy(llm).sort("max_output_tokens").partition_by("model", "symbols", as_dict=True)
        for color, ((model, symbols), rows) in zip(cycle, sorted(series.items()), strict=False):
            errors = [rows["accuracy"] - rows["low"], rows["high"] - rows["accuracy"]]
            axes.errorbar(
                rows["max_output_tokens"],
                rows["accuracy"],
                yerr=errors,
                color=color,
                marker="o" if symbols == "normal" else "^",
                ls="-" if symbols == "normal" else "--",
                elinewidth=0.7,
                label=f"{model}, {symbols} symbols",
            )
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.xaxis.set_minor_locator(NullLocator())
    style.percent_axis(axes)
    axes.set(xlabel="maximum output tokens", ylabel="accuracy at the comparator")
    figure.legend(loc="outside lower center")
    return figure
