"""Accuracy of linear probes for X and Y on the output of every layer, by token."""

import polars as pl
from matplotlib.figure import Figure

from cadmus.figures import panels, style


def data(probes: pl.DataFrame) -> pl.DataFrame:
    """Return the results by target, layer and token."""
    return probes.sort("target", "layer", "token")


def draw(probes: pl.DataFrame) -> Figure:
    """Draw the results of ``cadmus evaluate probe`` as layer × token heat maps."""
    layers = style.largest(probes["layer"]) + 1
    guess = float(probes["majority"].to_numpy().min())
    below = bool((probes["accuracy"].to_numpy() < guess).any())
    figure = Figure(figsize=(style.PAGE, 1.4 + 0.2 * layers))
    both = figure.subplots(1, 2, sharey=True)
    for axes, target in zip(both, ("x", "y"), strict=True):
        of_target = probes.filter(target=target)
        image = panels.layer_map(axes, of_target, "accuracy", ".0f", 100, vmin=guess, vmax=1)
        axes.set_title(f"{target.upper()}, {'first' if target == 'x' else 'second'} expression")
    ticks = [guess, *(tick for tick in (0.2, 0.4, 0.6, 0.8, 1.0) if tick > guess + 0.05)]
    look = {"format": style.PERCENT, "pad": 0.01, "ticks": ticks, "extendfrac": 0.05}
    bar = style.colorbar(figure, image, both, extend="min" if below else "neither", **look)
    bar.set_label(f"accuracy; {style.PERCENT(guess)}: most frequent value")
    return figure
