"""How well X and Y can be read off the output of every layer, token by token."""

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from cadmus.figures import style

COLUMNS = (("target", "layer", "token", "accuracy"),)
_LARGEST_WITH_TEXT = 8
"""Layers up to which every cell carries its number."""


def numbers(probes: pl.DataFrame) -> pl.DataFrame:
    """The probes, layer by layer."""
    return probes.sort("target", "layer", "token")


@style.styled
def draw(probes: pl.DataFrame) -> Figure:
    """Layer × token heat maps of the accuracies of :func:`cadmus.probe.regression.probe`."""
    layers, tokens = probes["layer"].max() + 1, probes["token"].max()
    figure = Figure(figsize=(style.PAGE, 1.4 + 0.2 * layers))
    panels = figure.subplots(1, 2, sharey=True)
    for axes, target in zip(panels, ("x", "y"), strict=True):
        rows = numbers(probes).filter(pl.col("target") == target)
        accuracy = np.full((layers, tokens), np.nan)
        accuracy[rows["layer"], rows["token"] - 1] = rows["accuracy"]
        image = axes.imshow(accuracy, origin="lower", aspect="auto", vmin=0, vmax=1)
        if layers <= _LARGEST_WITH_TEXT:
            for (layer, token), value in np.ndenumerate(accuracy):
                color = "black" if value > 0.55 else "white"
                axes.text(
                    token, layer, f"{value * 100:.0f}", ha="center", va="center", color=color, fontsize=6
                )
        for boundary in (tokens // 2 - 0.5, tokens - 1.5):
            axes.axvline(boundary, color="white", lw=1)
        axes.set_title(f"{target.upper()}, the {'first' if target == 'x' else 'second'} number")
        axes.set(xlabel="token", xticks=range(tokens), xticklabels=range(1, tokens + 1))
        axes.spines[:].set_visible(False)
    step = 1 if layers <= _LARGEST_WITH_TEXT else 3
    shown = range(0, layers, step)
    panels[0].set_yticks(shown, ["embedding", *(f"block {layer}" for layer in shown[1:])])
    bar = figure.colorbar(image, ax=panels, format=style.PERCENT, pad=0.01)
    bar.outline.set_visible(False)
    bar.set_label("accuracy (in the cells: %)" if layers <= _LARGEST_WITH_TEXT else "accuracy")
    return figure
