"""What each layer would say next, token by token."""

import math

import polars as pl
from matplotlib.figure import Figure

from cadmus import isa
from cadmus.figures import panels, style

COLUMNS = (("layer", "token", "programs", "loss", "agreeing"),)

UNIFORM = math.log(isa.VOCABULARY_SIZE)
"""The loss of a guess that holds all instructions equally likely, the end of the scale."""


def data(lens: pl.DataFrame) -> pl.DataFrame:
    """The lens, layer by layer, with the share of programs on which a layer agrees with the last one."""
    return lens.sort("layer", "token").with_columns(
        (pl.col("agreeing") / pl.col("programs")).alias("agreement")
    )


def draw(lens: pl.DataFrame) -> Figure:
    """Layer × token heat maps of the numbers of :func:`cadmus.experiments.lens.logit_lens`."""
    lens = data(lens)
    layers = style.largest(lens["layer"]) + 1
    figure = Figure(figsize=(style.PAGE, 1.5 + 0.2 * layers))
    left, right = figure.subplots(1, 2, sharey=True)
    loss = panels.layer_map(left, lens, "loss", UNIFORM, ".1f")
    agreement = panels.layer_map(right, lens, "agreement", 1, ".0f", 100)
    left.set_title("loss of the next instruction")
    right.set_title("same likeliest instruction as the last layer")
    for axes, image, label in ((left, loss, "nats"), (right, agreement, "share of programs")):
        bar = figure.colorbar(image, ax=axes, format=style.PERCENT if axes is right else None, pad=0.02)
        bar.outline.set_visible(False)
        bar.set_label(label)
    return figure
