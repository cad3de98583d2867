"""Activation patching: predicted comparator by patched layer."""

import polars as pl
from matplotlib.figure import Figure

from cadmus.figures import style

COLUMNS = (("token", "layer", "outcome", "programs", "share", "low", "high"),)
LABELS = {
    "own": ("original", style.GREY, "o"),
    "hybrid": ("patched value from donor, other value original", style.BLUE, "s"),
    "donor": ("donor", style.ORANGE, "^"),
    "other": ("none of these", "black", "x"),
}


def data(patches: pl.DataFrame) -> pl.DataFrame:
    """Return the results by token, outcome and layer."""
    return patches.sort("token", "outcome", "layer")


def draw(patches: pl.DataFrame) -> Figure:
    """Draw the results of ``cadmus evaluate patch``, one panel per token."""
    figure = Figure(figsize=(style.PAGE, 2.7))
    patches = data(patches)
    tokens = patches["token"].unique().sort().to_list()
    panels = figure.subplots(1, len(tokens), sharey=True, squeeze=False)[0]
    layers = style.largest(patches["layer"]) + 1
    shown = style.layer_names(layers, -(-layers // 10))
    for axes, token, which in zip(panels, tokens, ("first", "second"), strict=True):
        of_token = patches.filter(token=token)
        for outcome, (label, color, marker) in LABELS.items():
            rows = of_token.filter(outcome=outcome)
            style.line(axes, rows, "layer", "share", color=color, marker=marker, label=label)
        if not of_token["programs"].max():
            style.not_tested(axes)
        axes.set_title(f"token {token}, end of the {which} expression")
        axes.set_xlabel("patched after layer")
        axes.set_xticks(list(shown), list(shown.values()), rotation=30, ha="right")
        style.percent_axis(axes)
    panels[0].set_ylabel("predicted comparator")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=len(LABELS))
    return figure
