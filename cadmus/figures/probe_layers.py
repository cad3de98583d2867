"""How well X and Y can be read off the output of every layer, token by token."""

import polars as pl
from matplotlib.figure import Figure

from cadmus.figures import panels, style

COLUMNS = (("target", "layer", "token", "accuracy"),)


def data(probes: pl.DataFrame) -> pl.DataFrame:
    """The probes, layer by layer."""
    return probes.sort("target", "layer", "token")


def draw(probes: pl.DataFrame) -> Figure:
    """Layer × token heat maps of the accuracies of :func:`cadmus.experiments.probe.probe`."""
    layers = style.largest(probes["layer"]) + 1
    figure = Figure(figsize=(style.PAGE, 1.4 + 0.2 * layers))
    both = figure.subplots(1, 2, sharey=True)
    for axes, target in zip(both, ("x", "y"), strict=True):
        image = panels.layer_map(axes, probes.filter(target=target), "accuracy", 1, ".0f", 100)
        axes.set_title(f"{target.upper()}, the {'first' if target == 'x' else 'second'} number")
    bar = figure.colorbar(image, ax=both, format=style.PERCENT, pad=0.01)
    bar.outline.set_visible(False)
    bar.set_label("accuracy (in the cells: %)" if layers <= panels.LAYERS_WITH_TEXT else "accuracy")
    return figure
