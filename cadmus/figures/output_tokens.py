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


def numbers(grid: pl.DataFrame, llm: pl.DataFrame | None = None) -> pl.DataFrame:
    """Cadmus on the in-distribution square of the grid, the paper's GPT-5, and the LLMs that were run.

    Raises:
        InputError: the grid has no pair in distribution.
    """
    cadmus = summary(grid).filter(region="in_distribution")
    if not cadmus["programs"][0]:
        raise InputError("the grid holds no pair within the training range; widen evaluate.grid")
    gpt5 = {
        "model": ["GPT-5"],
        "symbols": ["normal"],
        "max_output_tokens": [reported.GPT5_OUTPUT_TOKENS],
        "accuracy": [reported.GPT5_ACCURACY],
        "source": ["reported"],
    }
    parts = [
        cadmus.select(
            pl.lit("Cadmus").alias("model"),
            pl.lit("normal").alias("symbols"),
            pl.lit(1).alias("max_output_tokens"),
            pl.col("programs", "correct", "accuracy", "low", "high"),
            pl.lit("measured").alias("source"),
        ),
        pl.DataFrame(gpt5),
    ]
    if llm is not None:
        series = with_accuracy(llm.select(COLUMNS[1])).with_columns(pl.lit("measured").alias("source"))
        # Normal before alternate symbols.
        parts.append(series.sort("model", pl.col("symbols") != "normal", "max_output_tokens"))
    return pl.concat(parts, how="diagonal_relaxed")


@style.styled
def draw(grid: pl.DataFrame, llm: pl.DataFrame | None = None) -> Figure:
    """Cadmus as a line, the reported point, and a series for each LLM and kind of symbols."""
    cadmus, gpt5, *measured = numbers(grid, llm).partition_by(
        "model", "symbols", "source", maintain_order=True
    )
    figure = Figure(figsize=(style.COLUMN, 2.6 + 0.14 * len(measured)))
    axes = figure.subplots()
    interval = as_text(cadmus["accuracy"][0], cadmus["low"][0], cadmus["high"][0])
    axes.axhspan(cadmus["low"][0], cadmus["high"][0], color=style.BLUE, alpha=0.2, lw=0)
    axes.axhline(cadmus["accuracy"][0], color=style.BLUE, label=f"Cadmus, one output token: {interval}")
    for color, rows in zip(cycle(_COLORS), measured, strict=False):
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
        gpt5["max_output_tokens"],
        gpt5["accuracy"],
        color=style.GREY,
        marker="D",
        mfc="white",
        ls="none",
        ms=5,
        zorder=3,
        label="GPT-5, normal symbols: as reported in the paper, not run",
    )
    axes.set_xscale("log")
    if measured:
        ticks = sorted({reported.GPT5_OUTPUT_TOKENS, *pl.concat(measured)["max_output_tokens"]})
    else:
        ticks = [500, 1_000, reported.GPT5_OUTPUT_TOKENS, 4_000]
        place = {"transform": axes.transAxes, "ha": "center", "style": "italic"}
        axes.text(0.5, 0.4, "no LLM was run", color=style.GREY, **place)
        axes.set_xlim(400, 5_000)
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    style.percent_axis(axes)
    axes.set(xlabel="maximum output tokens", ylabel="accuracy")
    figure.legend(loc="outside lower center")
    return figure
