"""Losses against training steps, of one run or of several."""

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from cadmus.figures import style

LOSSES = {"loss": ("all tokens", "black"), "completion_loss": ("completions", style.GREEN)}
OTHERS = "validation_loss", "reinforcement_solved"
DASHES = "-", "--", ":"
"""More runs than colors differ by their lines."""


def data(metrics: pl.DataFrame) -> pl.DataFrame:
    """Return losses and their running means over 1% of all steps; of a repeated step, the last.

    Several runs are told apart by a column ``run``.
    """
    run = ["run"] if "run" in metrics.columns else []
    parts = []
    for part in metrics.partition_by(run, maintain_order=True) if run else [metrics]:
        steps = part.unique("step", keep="last").sort("step")
        window = max(1, round(0.01 * len(steps)))
        means = pl.col(*LOSSES).rolling_mean(window, min_samples=1, center=True).name.prefix("mean_")
        parts.append(steps.select(*run, "step", *LOSSES, *OTHERS, means))
    return pl.concat(parts)


def draw(metrics: pl.DataFrame) -> Figure:
    """Draw ``metrics.jsonl``, which has one line per step, or the completion losses of several."""
    metrics = data(metrics)
    figure = Figure(figsize=(style.COLUMN, 2.5))
    axes = figure.subplots()
    if "run" in metrics.columns:
        _draw_runs(axes, metrics)
    else:
        _draw_run(axes, metrics)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.grid(True, axis="y")
    axes.set(xlabel="training step")
    return figure


def _draw_run(axes: Axes, metrics: pl.DataFrame) -> None:
    """Draw both losses of a run, those of the validation split, and the steps with rewards."""
    for loss, (label, color) in LOSSES.items():
        axes.plot(metrics["step"], metrics[loss], color=color, lw=0.5, alpha=0.3)
        axes.plot(metrics["step"], metrics[f"mean_{loss}"], color=color, label=label)
    validated = metrics.drop_nulls("validation_loss")
    if len(validated):
        label = "completions, validation"
        axes.plot(validated["step"], validated["validation_loss"], "o", color=style.ORANGE, ms=3, label=label)
    reinforced = metrics.drop_nulls("reinforcement_solved")["step"]
    if len(reinforced):
        label = "reinforcement learning"
        axes.axvspan(reinforced[0], reinforced[-1], color=style.GRAY, alpha=0.15, lw=0, label=label)
    axes.legend(loc="upper center")
    axes.set_ylabel("loss, nats per token")


def _draw_runs(axes: Axes, metrics: pl.DataFrame) -> None:
    """Draw the completion loss of each run."""
    for number, run in enumerate(metrics.partition_by("run", maintain_order=True)):
        color = style.COLORS[number % len(style.COLORS)]
        dashes = DASHES[number // len(style.COLORS) % len(DASHES)]
        axes.plot(run["step"], run["completion_loss"], color=color, lw=0.5, alpha=0.2)
        axes.plot(run["step"], run["mean_completion_loss"], dashes, color=color, label=run["run"][0])
    axes.legend(loc="upper right")
    axes.set_ylabel("completion loss, nats per token")
