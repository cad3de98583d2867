"""Loss and tokens against training steps."""

import polars as pl
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, FuncFormatter, LogLocator, NullLocator

from cadmus.figures import style

COLUMNS = (("step", "loss", "tokens"),)


SMOOTHED_SHARE = 0.01
"""Share of the steps over which the mean loss is taken."""


def numbers(metrics: pl.DataFrame) -> pl.DataFrame:
    """The steps with a loss and its running mean; of one that was trained twice, the last time."""
    steps = metrics.filter(pl.col("loss").is_not_null()).unique("step", keep="last").sort("step")
    window = max(1, round(SMOOTHED_SHARE * len(steps)))
    return steps.with_columns(mean_loss=pl.col("loss").rolling_mean(window, min_samples=1, center=True))


@style.styled
def draw(metrics: pl.DataFrame) -> Figure:
    """From ``metrics.jsonl``, a line a logged step: its number, its loss and all tokens trained on so far."""
    metrics = numbers(metrics)
    figure = Figure(figsize=(style.COLUMN, 2.5))
    axes = figure.subplots()
    axes.plot(metrics["step"], metrics["loss"], color=style.BLUE, lw=0.5, alpha=0.3)
    axes.plot(metrics["step"], metrics["mean_loss"], color=style.BLUE)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.grid(True, axis="y")
    axes.set(xlabel="step", ylabel="loss, nats per token")
    axes.yaxis.label.set_color(style.BLUE)
    right = axes.twinx()
    right.spines.right.set_visible(True)
    right.plot(metrics["step"], metrics["tokens"], color=style.ORANGE, ls="--")
    right.set(ylabel="tokens", ylim=(0, None))
    right.yaxis.set_major_formatter(EngFormatter(sep=""))
    right.yaxis.label.set_color(style.ORANGE)
    return figure
