"""Accuracy of linear probes for X and Y on the output of the final block, by token."""

from typing import Any

import polars as pl
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from cadmus.evaluate.intervals import wilson
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
    control = axes.fill_between(
        band["token"], band["low"], band["high"], color="#BBBBBB", lw=0, label="control: values permuted"
    )
    handles: list[Any] = []
    for target, color, marker in (("x", style.BLUE, "o"), ("y", style.ORANGE, "s")):
        rows = final.filter(target=target)
        label = f"{target.upper()}, probe"
        handles += style.line(axes, rows, "token", "accuracy", color=color, marker=marker, label=label)
        axes.plot(rows["token"], rows["majority"], color=color, ls="--", lw=0.9)
    optimal = Line2D([], [], color="black", ls="--", lw=0.9, label="optimal given the tokens read")
    half = tokens // 2
    for boundary in (half + 0.5, tokens - 0.5):
        axes.axvline(boundary, color="#AAAAAA", lw=0.6)
    centre = (half + 1) / 2
    names = {centre: "first expression", half + centre: "second expression", tokens: "< > ="}
    for place, text in names.items():
        axes.text(place, 1.07, text, ha="center", va="bottom", fontsize=7, color=style.GREY)
    style.percent_axis(axes)
    panels.token_axis(axes, range(1, tokens + 1))
    axes.set_ylabel("accuracy")
    figure.legend(handles=[*handles, optimal, control], loc="outside lower center", ncols=2)
    return figure
