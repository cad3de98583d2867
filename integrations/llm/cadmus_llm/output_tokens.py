"""Accuracy of LLMs against their maximum number of output tokens, with Cadmus as a line."""

import polars as pl
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from cadmus.errors import InputError
from cadmus.evaluate.statistics.intervals import percent
from cadmus.evaluate.statistics.regions import summary
from cadmus.evaluate.statistics.results import with_accuracy
from cadmus.figures import style, tables
from cadmus_llm.outcomes import summary as conditions

GPT5_ACCURACY = 0.95
"""Accuracy of GPT-5 on the in-distribution comparison grid in normal symbols, reported in the paper."""
GPT5_OUTPUT_TOKENS = 2_000
"""Its maximum number of output tokens."""
_LOOKS = {"normal": ("o", "-"), "alternate": ("^", "--"), "letters": ("s", ":"), "permuted": ("v", "-.")}
_COLORS = (style.ORANGE, style.GREEN, "#CC79A7", "#E69F00", "#56B4E9", "black")


def data(grid: pl.DataFrame, llm: pl.DataFrame) -> pl.DataFrame:
    """Return the accuracy of Cadmus on balanced programs, of GPT-5 in the paper, and of the LLMs."""
    place = {"max_output_tokens": GPT5_OUTPUT_TOKENS, "accuracy": GPT5_ACCURACY}
    gpt5 = pl.DataFrame({"model": "GPT-5", "alphabet": "normal", **place, "source": "reported"})
    return pl.concat([_cadmus(grid), gpt5, _llms(llm)], how="diagonal_relaxed")


def draw(grid: pl.DataFrame, llm: pl.DataFrame) -> Figure:
    """Draw Cadmus, the best baseline, the reported point, and a series per LLM, alphabet and shots."""
    (cadmus,) = _cadmus(grid).to_dicts()
    series = _llms(llm).partition_by("model", "alphabet", "shots", maintain_order=True)
    figure = Figure(figsize=(style.COLUMN, 2.6 + 0.14 * len(series)))
    axes = figure.subplots()
    axes.axhspan(cadmus["low"], cadmus["high"], color=style.BLUE, alpha=0.2, lw=0)
    label = f"Cadmus, one output token: {tables.accuracy(cadmus)}"
    axes.axhline(cadmus["accuracy"], color=style.BLUE, label=label)
    label = f"best baseline: {tables.baseline(cadmus['best_baseline'], cadmus['baseline'])}"
    axes.axhline(cadmus["baseline"], color=style.GRAY, lw=0.7, ls="--", label=label)
    models = list(dict.fromkeys(rows["model"][0] for rows in series))
    limits: set[int] = set()
    for rows in series:
        name, alphabet = rows["model"][0], rows["alphabet"][0]
        answered = rows.filter(pl.col("programs") > 0).sort("max_output_tokens")
        label = f"{name}, {alphabet} symbols"
        if llm["shots"].n_unique() > 1:
            label += f", {rows['shots'][0]} shots"
        if not len(answered):
            axes.plot([], [], ls="none", label=f"{label}: not run")
            continue
        limits.update(answered["max_output_tokens"])
        if missing := max(rows["unanswered"]):
            label += f" ({missing:,} not answered)"
        # Those at the largest limit: fewer answers are cut off there.
        if unreadable := answered["unreadable"][-1]:
            label += f" ({percent(unreadable)} unreadable)"
        marker, ls = _LOOKS[alphabet]
        look = {"color": _COLORS[models.index(name) % len(_COLORS)], "marker": marker, "ls": ls}
        bars = [answered["accuracy"] - answered["low"], answered["high"] - answered["accuracy"]]
        points = answered["max_output_tokens"], answered["accuracy"]
        axes.errorbar(*points, yerr=bars, elinewidth=0.7, label=label, **look)
    label = "GPT-5, normal symbols: reported in the paper, not run"
    place = [GPT5_OUTPUT_TOKENS], [GPT5_ACCURACY]
    axes.plot(*place, "D", color=style.GRAY, mfc="white", ms=5, zorder=3, label=label)
    axes.set_xscale("log")
    ticks = sorted(limits) or [GPT5_OUTPUT_TOKENS]
    axes.tick_params(axis="x", labelrotation=45 if len(ticks) > 4 else 0)
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    style.percent_axis(axes)
    axes.set(xlabel="maximum output tokens", ylabel="accuracy")
    figure.legend(loc="outside lower center")
    return figure


def _cadmus(grid: pl.DataFrame) -> pl.DataFrame:
    """Return the accuracy on the programs that language models are asked too."""
    balanced = summary(grid).filter(region="balanced")
    if balanced.is_empty():
        raise InputError("no test comparison is in the training range; widen dataset.values")
    return balanced.select(
        pl.lit("Cadmus").alias("model"),
        pl.lit("normal").alias("alphabet"),
        pl.lit(1).alias("max_output_tokens"),
        pl.col("programs", "correct", "accuracy", "low", "high", "best_baseline", "baseline"),
        pl.lit("measured").alias("source"),
    )


def _llms(llm: pl.DataFrame) -> pl.DataFrame:
    run = pl.when(pl.col("programs") > 0).then(pl.lit("measured")).otherwise(pl.lit("not run"))
    answers = conditions(llm.filter(~pl.col("in_grid")))
    return with_accuracy(answers).with_columns(run.alias("source"))
