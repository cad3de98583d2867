"""Interchange interventions: counterfactual answers by variable, layer and what is exchanged."""

import polars as pl
from matplotlib.figure import Figure

from cadmus.evaluate.counterfactuals import VARIABLES
from cadmus.figures import style

LABELS = {
    "state": ("whole state", style.GREY, "o"),
    "learned": ("learned directions", style.BLUE, "s"),
    "random": ("random directions", style.ORANGE, "^"),
}
COLUMNS = 4


def data(interchange: pl.DataFrame) -> pl.DataFrame:
    """Return the results by variable, method and layer."""
    order = pl.Enum(interchange["variable"].unique(maintain_order=True))
    return interchange.sort(pl.col("variable").cast(order), "method", "layer")


def draw(interchange: pl.DataFrame) -> Figure:
    """Draw the results of ``cadmus evaluate interchange``, one panel per variable."""
    variables = interchange["variable"].unique(maintain_order=True).to_list()
    columns = min(COLUMNS, len(variables))
    lines = -(-len(variables) // columns)
    figure = Figure(figsize=(style.PAGE, 0.6 + 1.8 * lines))
    panels = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False)
    layers = style.largest(interchange["layer"]) + 1
    shown = style.layer_names(layers, -(-layers // 6))
    for number, axes in enumerate(panels.flat):
        if number >= len(variables):
            axes.set_visible(False)
            continue
        rows = data(interchange).filter(variable=variables[number])
        for method, (label, color, marker) in LABELS.items():
            of_method = rows.filter(method=method)
            style.line(axes, of_method, "layer", "accuracy", color=color, marker=marker, label=label)
        if not style.largest(rows["programs"]):
            style.not_tested(axes)
        axes.set_title(VARIABLES[variables[number]].title)
        axes.set_xticks(list(shown), list(shown.values()), rotation=30, ha="right")
        axes.tick_params(labelbottom=number + columns >= len(variables))
        style.percent_axis(axes)
    for axes in panels[:, 0]:
        axes.set_ylabel("counterfactual answers")
    size = interchange.filter(method="random")["directions"].item(0)
    style.legend(
        figure, panels.ravel().tolist(), ncols=3, title=f"exchanged ({size} directions)", title_fontsize=7
    )
    return figure
