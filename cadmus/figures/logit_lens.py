"""Logit lens: loss and agreement with the last layer, by layer and token."""

import math

import polars as pl
from matplotlib.figure import Figure

from cadmus import isa
from cadmus.figures import panels, style

COLUMNS = (("layer", "token", "programs", "loss", "agreeing"),)

UNIFORM = math.log(isa.VOCABULARY_SIZE)
"""Loss of a uniform prediction, the maximum of the color scale."""


def data(lens: pl.DataFrame) -> pl.DataFrame:
    """Return the results by layer and token, with the fraction of programs that agree with the last layer."""
    return lens.sort("layer", "token").with_columns(
        (pl.col("agreeing") / pl.col("programs")).alias("agreement")
    )


def draw(lens: pl.DataFrame) -> Figure:
    """Draw the results of ``cadmus evaluate lens`` as layer × token heat maps."""
    lens = data(lens)
    layers = style.largest(lens["layer"]) + 1
    figure = Figure(figsize=(style.PAGE, 1.5 + 0.2 * layers))
    left, right = figure.subplots(1, 2, sharey=True)
    loss = panels.layer_map(left, lens, "loss", UNIFORM, ".1f")
    agreement = panels.layer_map(right, lens, "agreement", 1, ".0f", 100)
    left.set_title("loss of the next instruction")
    right.set_title("same most likely instruction as the last layer")
    for axes, image, label in ((left, loss, "nats"), (right, agreement, "fraction of programs")):
        bar = figure.colorbar(image, ax=axes, format=style.PERCENT if axes is right else None, pad=0.02)
        bar.outline.set_visible(False)
        bar.set_label(label)
    return figure
