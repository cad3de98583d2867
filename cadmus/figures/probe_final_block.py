"""Accuracy of linear probes for X and Y on the output of the final block, by token."""

import polars as pl
from matplotlib.figure import Figure

from cadmus.figures import style

COLUMNS = (("target", "layer", "token", "accuracy", "low", "high", "majority", "control"),)


def data(probes: pl.DataFrame) -> pl.DataFrame:
    """Return the results of the final block by target and token."""
    return probes.filter(pl.col("layer") == pl.col("layer").max()).sort("target", "token")


def draw(probes: pl.DataFrame) -> Figure:
    """Draw the results of ``cadmus evaluate probe``: probes, majority baselines and controls."""
    figure = Figure(figsize=(style.COLUMN, 2.6))
    axes = figure.subplots()
    final = data(probes)
    tokens = style.largest(final["token"])
    for target, color, marker in (("x", style.BLUE, "o"), ("y", style.ORANGE, "s")):
        rows = final.filter(target=target)
        label = f"{target.upper()}, probe"
        style.line(axes, rows, "token", "accuracy", color=color, marker=marker, label=label)
        for column, ls, name in (("majority", "--", "majority"), ("control", ":", "control")):
            axes.plot(
                rows["token"], rows[column], color=color, ls=ls, lw=0.9, label=f"{target.upper()}, {name}"
            )
    half = tokens // 2
    for boundary in (half + 0.5, tokens - 0.5):
        axes.axvline(boundary, color="#AAAAAA", lw=0.6)
    for centre, text in (((half + 1) / 2, "first expression"), (half + (half + 1) / 2, "second expression")):
        axes.text(centre, 1.04, text, ha="center", va="bottom", fontsize=7, color=style.GREY)
    axes.text(tokens, 1.04, "< > =", ha="center", va="bottom", fontsize=7, color=style.GREY)
    style.percent_axis(axes)
    axes.set(xlabel="token", ylabel="accuracy", xticks=range(1, tokens + 1))
    figure.legend(loc="outside lower center", ncols=2)
    return figure
