"""Loss and tokens against training steps."""

import polars as pl
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, FuncFormatter, LogLocator, NullLocator

from cadmus.figures import style

COLUMNS = (("step", "loss", "tokens"),)


def numbers(metrics: pl.DataFrame) -> pl.DataFrame:
    """The steps with a loss; of one that was trained twice, before and after a restart, the last time."""
    return metrics.filter(pl.col("loss").is_not_null()).unique("step", keep="last").sort("step")


@style.styled
def draw(metrics: pl.DataFrame) -> Figure:
    """From ``metrics.jsonl``, a line a logged step: its number, its loss and all tokens trained on so far."""
    metrics = numbers(metrics)
    figure = Figure(figsize=(style.COLUMN, 2.5))
    axes = figure.subplots()
    axes.plot(metrics["step"], metrics["loss"], color=style.BLUE, lw=0.8, label="loss")
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.grid(True, axis="y")
    axes.set(xlabel="step", ylabel="loss, nats per token")
    axes.yaxis.label.set_color(style.BLUE)
    right = axes.twinx()
    right.spines.right.set_visible(True)
    right.plot(metrics["step"], metrics["tokens"], color=style.ORANGE, ls="--", label="tokens")
    right.set(ylabel="tokens", ylim=(0, None))
    right.yaxis.set_major_formatter(EngFormatter(sep=""))
    right.yaxis.label.set_color(style.ORANGE)
    return figure
