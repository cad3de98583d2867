"""Accuracy of LLMs against their maximum number of output tokens, with Cadmus as a line."""

from typing import Any

import polars as pl
from matplotlib.artist import Artist
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from cadmus.errors import InputError
from cadmus.evaluate.intervals import as_text
from cadmus.evaluate.regions import COLUMNS as GRID
from cadmus.evaluate.regions import summary
from cadmus.evaluate.results import with_accuracy
from cadmus.figures import reported, style, tables
from cadmus.llm.outcomes import COLUMNS as ANSWERS
from cadmus.llm.outcomes import summary as conditions

COLUMNS = (GRID, ANSWERS)

_COLORS = (style.ORANGE, style.GREEN, "#CC79A7", "#E69F00", "#56B4E9", "black")
_MOST_LEVEL_TICKS = 4


def data(grid: pl.DataFrame, llm: pl.DataFrame | None = None) -> pl.DataFrame:
    """Return the accuracy of Cadmus inside the training range, of GPT-5 in the paper, and of the LLMs."""
    parts = [_cadmus(grid), _reported()] + ([] if llm is None else [_llms(llm)])
    return pl.concat(parts, how="diagonal_relaxed")


def draw(grid: pl.DataFrame, llm: pl.DataFrame | None = None) -> Figure:
    """Draw Cadmus, the best baseline, the reported point, and a series per LLM and kind of symbols."""
    cadmus, gpt5 = _cadmus(grid), _reported()
    series = [] if llm is None else _llms(llm).partition_by("model", "symbols", maintain_order=True)
    run = [rows.filter(pl.col("programs") > 0).sort("max_output_tokens") for rows in series]
    figure = Figure(figsize=(style.COLUMN, 2.6 + 0.14 * len(series)))
    axes = figure.subplots()
    interval = as_text(cadmus["accuracy"][0], cadmus["low"][0], cadmus["high"][0])
    axes.axhspan(cadmus["low"][0], cadmus["high"][0], color=style.BLUE, alpha=0.2, lw=0)
    handles: list[Artist | ErrorbarContainer] = [
        axes.axhline(cadmus["accuracy"][0], color=style.BLUE, label=f"Cadmus, one output token: {interval}")
    ]
    baseline = cadmus["baseline"][0]
    label = f"best baseline: {tables.baseline(cadmus['best_baseline'][0], baseline)}"
    handles.append(axes.axhline(baseline, color=style.GREY, lw=0.7, ls="--", label=label))
    models = list(dict.fromkeys(rows["model"][0] for rows in series))
    for rows, answered in zip(series, run, strict=True):
        name, symbols = rows["model"][0], rows["symbols"][0]
        label = f"{name}, {symbols} symbols"
        if not len(answered):
            handles += axes.plot([], [], ls="none", label=f"{label}: not run")
            continue
        if missing := int(rows["unanswered"].sum()) + int(rows["malformed"].sum()):
            label += f" ({missing:,} not answered)"
        drawn = axes.errorbar(
            answered["max_output_tokens"],
            answered["accuracy"],
            yerr=[answered["accuracy"] - answered["low"], answered["high"] - answered["accuracy"]],
            color=_COLORS[models.index(name) % len(_COLORS)],
            marker="o" if symbols == "normal" else "^",
            ls="-" if symbols == "normal" else "--",
            elinewidth=0.7,
            label=label,
        )
        handles.append(drawn)
    handles += axes.plot(
        gpt5["max_output_tokens"],
        gpt5["accuracy"],
        color=style.GREY,
        marker="D",
        mfc="white",
        ls="none",
        ms=5,
        zorder=3,
        label="GPT-5, normal symbols: reported in the paper, not run",
    )
    axes.set_xscale("log")
    limits = {limit for answered in run for limit in answered["max_output_tokens"]}
    if limits:
        ticks = sorted(limits)
        axes.tick_params(axis="x", labelrotation=45 if len(ticks) > _MOST_LEVEL_TICKS else 0)
    else:
        ticks = [500, 1_000, reported.GPT5_OUTPUT_TOKENS, 4_000]
        centre: dict[str, Any] = {"transform": axes.transAxes, "ha": "center", "style": "italic"}
        axes.text(0.5, 0.25, "no LLM was run", color=style.GREY, **centre)
        axes.set_xlim(400, 5_000)
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    style.percent_axis(axes)
    axes.set(xlabel="maximum output tokens", ylabel="accuracy")
    # Without handles, the legend would list the series with intervals last.
    figure.legend(handles=handles, loc="outside lower center")
    return figure


def _cadmus(grid: pl.DataFrame) -> pl.DataFrame:
    inside = summary(grid).filter(region="inside")
    if not inside["programs"][0]:
        raise InputError("the grid has no pair within the training range; widen evaluate.grid")
    return inside.select(
        pl.lit("Cadmus").alias("model"),
        pl.lit("normal").alias("symbols"),
        pl.lit(1).alias("max_output_tokens"),
        pl.col("programs", "correct", "accuracy", "low", "high", "best_baseline", "baseline"),
        pl.lit("measured").alias("source"),
    )


def _reported() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "model": ["GPT-5"],
            "symbols": ["normal"],
            "max_output_tokens": [reported.GPT5_OUTPUT_TOKENS],
            "accuracy": [reported.GPT5_ACCURACY],
            "source": ["reported"],
        }
    )


def _llms(llm: pl.DataFrame) -> pl.DataFrame:
    run = pl.when(pl.col("programs") > 0).then(pl.lit("measured")).otherwise(pl.lit("not run"))
    return with_accuracy(conditions(llm)).with_columns(run.alias("source"))
