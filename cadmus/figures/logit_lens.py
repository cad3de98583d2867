"""Logit lens: loss and agreement with the last layer, by layer and token."""

import math

import polars as pl
from matplotlib.figure import Figure

from cadmus import isa
from cadmus.figures import panels, style

UNIFORM = math.log(isa.VOCABULARY_SIZE)
"""Loss of a uniform prediction, the maximum of the color scale."""


def data(lens: pl.DataFrame) -> pl.DataFrame:
    """Return the results by layer and token, with the fraction of programs that agree with the last layer."""
    return lens.sort("layer", "token").with_columns(agreement=pl.col("agreeing") / pl.col("programs"))


def draw(lens: pl.DataFrame) -> Figure:
    """Draw the results of ``cadmus evaluate lens`` as layer × token heat maps; bright cells are good."""
    lens = data(lens)
    layers = style.largest(lens["layer"]) + 1
    figure = Figure(figsize=(style.PAGE, 1.5 + 0.2 * layers))
    left, right = figure.subplots(1, 2, sharey=True)
    loss = panels.layer_map(left, lens, "loss", ".1f", vmin=0, vmax=UNIFORM, cmap="cividis_r")
    agreement = panels.layer_map(right, lens, "agreement", ".0f", 100, vmin=0, vmax=1)
    left.set_title("loss of the next instruction, nats")
    right.set_title("same prediction as the last layer, % of programs")
    ticks = [0, 1, 2, 3, UNIFORM]
    losses = style.colorbar(figure, loss, left, pad=0.02, extend="max", extendfrac=0.05, ticks=ticks)
    losses.ax.set_yticklabels(["0", "1", "2", "3", f"{UNIFORM:.1f}\nuniform"])
    # Bright, which is good, is at the top of both scales.
    losses.ax.invert_yaxis()
    style.colorbar(figure, agreement, right, format=style.PERCENT, pad=0.02)
    return figure
