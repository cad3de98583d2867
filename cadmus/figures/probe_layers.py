"""Accuracy of linear probes for X and Y on the output of every layer, by token."""

import polars as pl
from matplotlib.figure import Figure

from cadmus.figures import panels, style

COLUMNS = (("target", "layer", "token", "accuracy"),)


def data(probes: pl.DataFrame) -> pl.DataFrame:
    """Return the results by target, layer and token."""
    return probes.sort("target", "layer", "token")


def draw(probes: pl.DataFrame) -> Figure:
    """Draw the results of ``cadmus evaluate probe`` as layer × token heat maps."""
    layers = style.largest(probes["layer"]) + 1
    figure = Figure(figsize=(style.PAGE, 1.4 + 0.2 * layers))
    both = figure.subplots(1, 2, sharey=True)
    for axes, target in zip(both, ("x", "y"), strict=True):
        image = panels.layer_map(axes, probes.filter(target=target), "accuracy", 1, ".0f", 100)
        axes.set_title(f"{target.upper()}, {'first' if target == 'x' else 'second'} expression")
    bar = figure.colorbar(image, ax=both, format=style.PERCENT, pad=0.01)
    bar.outline.set_visible(False)
    bar.set_label("accuracy (cells: %)" if layers <= panels.LAYERS_WITH_TEXT else "accuracy")
    return figure
