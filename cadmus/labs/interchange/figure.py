"""Interchange interventions: counterfactual answers by variable, layer and what is exchanged."""

import polars as pl
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from cadmus.evaluate.prompts.counterfactuals import VARIABLES
from cadmus.figures import style

LABELS = {
    "state": ("whole state", style.GRAY, "o"),
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
    figure = Figure(figsize=(style.PAGE, 0.6 + 1.8 * -(-len(variables) // columns)))
    panels = style.multiples(figure, len(variables), columns, sharex=True, sharey=True)
    for number, (axes, variable) in enumerate(zip(panels.flat, variables, strict=False)):
        rows = data(interchange).filter(variable=variable)
        for method, (label, color, marker) in LABELS.items():
            of_method = rows.filter(method=method)
            style.line(axes, of_method, "layer", "accuracy", color=color, marker=marker, label=label)
        if not style.largest(rows["programs"]):
            style.not_tested(axes)
        axes.set_title(VARIABLES[variable].title)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.tick_params(labelbottom=number + columns >= len(variables))
        style.percent_axis(axes)
    for axes in panels[:, 0]:
        axes.set_ylabel("counterfactual answers")
    figure.supxlabel("exchanged after block (0: embedding)", fontsize=8)
    size = interchange.filter(method="random")["directions"].item(0)
    title = f"exchanged ({size} directions)"
    style.legend(figure, panels.flat, ncols=3, title=title, title_fontsize=7)
    return figure
