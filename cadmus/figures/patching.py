"""Activation patching: predicted comparator by patched layer."""

import polars as pl
from matplotlib.figure import Figure

from cadmus.figures import style

LABELS = {
    "own": ("X and Y original", style.GREY, "o"),
    "hybrid": ("patched value from donor, other original", style.BLUE, "s"),
    "donor": ("X and Y from donor", style.ORANGE, "^"),
    "other": ("none of these", "black", "x"),
}


def data(patches: pl.DataFrame) -> pl.DataFrame:
    """Return the results by token, outcome and layer."""
    return patches.sort("token", "outcome", "layer")


def draw(patches: pl.DataFrame) -> Figure:
    """Draw the results of ``cadmus evaluate patch``, one panel per token."""
    figure = Figure(figsize=(style.PAGE, 2.9))
    patches = data(patches)
    tokens = patches["token"].unique().sort().to_list()
    panels = figure.subplots(1, len(tokens), sharey=True, squeeze=False)[0]
    layers = style.largest(patches["layer"]) + 1
    shown = style.layer_names(layers, -(-layers // 10))
    for axes, token, value in zip(panels, tokens, "XY", strict=True):
        of_token = patches.filter(token=token)
        for outcome, (label, color, marker) in LABELS.items():
            rows = of_token.filter(outcome=outcome)
            style.line(axes, rows, "layer", "share", color=color, marker=marker, label=label)
        pairs = style.largest(of_token["programs"])
        if pairs:
            # Only pairs that the model gets right count.
            axes.axhline(1, color=style.GREY, ls="--", lw=0.9, label="without patching: X and Y original")
        else:
            style.not_tested(axes)
        axes.set_title(f"{value} patched at token {token} ({pairs:,} pairs)")
        axes.set_xlabel("patched after layer")
        axes.set_xticks(list(shown), list(shown.values()), rotation=30, ha="right")
        style.percent_axis(axes)
    panels[0].set_ylabel("fraction of pairs")
    style.legend(figure, panels, ncols=3, title="predicted comparator", title_fontsize=7)
    return figure
