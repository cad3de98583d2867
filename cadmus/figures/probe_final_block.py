"""Accuracy of linear probes for X and Y on the output of the final block, by token."""

import polars as pl
from matplotlib.figure import Figure

from cadmus.evaluate.statistics.intervals import wilson
from cadmus.figures import panels, style


def data(probes: pl.DataFrame) -> pl.DataFrame:
    """Return the results of the final block by target and token."""
    return probes.filter(pl.col("layer") == pl.col("layer").max()).sort("target", "token")


def draw(probes: pl.DataFrame) -> Figure:
    """Draw the results of ``cadmus evaluate probe``: probes, optimal accuracies and controls."""
    figure = Figure(figsize=(style.COLUMN, 2.6))
    axes = figure.subplots()
    final = data(probes)
    tokens = style.largest(final["token"])
    programs = final["programs"].to_numpy()
    low, high = wilson((final["control"].to_numpy() * programs).round(), programs)
    # The controls of X and Y hardly differ: one band holds both.
    controls = final.select("token", low=low, high=high).group_by("token", maintain_order=True)
    band = controls.agg(pl.min("low"), pl.max("high"))
    axes.fill_between(
        band["token"], band["low"], band["high"], color="#BBBBBB", lw=0, label="control: values permuted"
    )
    for target, color, marker in (("x", style.BLUE, "o"), ("y", style.ORANGE, "s")):
        rows = final.filter(target=target)
        label = f"{target.upper()}, probe"
        style.line(axes, rows, "token", "accuracy", color=color, marker=marker, label=label)
        axes.plot(rows["token"], rows["majority"], color=color, ls="--", lw=0.9, label="optimum, tokens read")
    for boundary in (tokens // 2 + 0.5, tokens - 0.5):
        axes.axvline(boundary, color="#AAAAAA", lw=0.6)
    style.percent_axis(axes)
    panels.token_axis(axes, range(1, tokens + 1))
    axes.set_ylabel("accuracy")
    style.legend(figure, [axes], ncols=2)
    return figure
