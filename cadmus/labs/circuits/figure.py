"""Circuits: what the edges of each method keep, and how well gradients estimate the effect of an edge."""

import polars as pl
from matplotlib.figure import Figure

from cadmus.evaluate.prompts.counterfactuals import VARIABLES
from cadmus.figures import style
from cadmus.labs.circuits.circuit import accuracy_of_circuits

LABELS = {
    "effect": ("measured", style.BLUE, "-"),
    "integrated": ("gradients at five points", style.GREEN, "-"),
    "attributed": ("gradients at one point", style.ORANGE, "--"),
    "random": ("random", style.GRAY, ":"),
}
ESTIMATES = {"attributed": "x", "integrated": "."}


def data(circuit: pl.DataFrame) -> pl.DataFrame:
    """Return the answers that stay right by variable, method and number of edges."""
    return accuracy_of_circuits(circuit)


def draw(circuit: pl.DataFrame) -> Figure:
    """Draw the results of ``cadmus evaluate circuit``, one column of panels per variable."""
    variables = circuit["variable"].unique(maintain_order=True).to_list()
    figure = Figure(figsize=(style.PAGE, 4.2))
    above, below = style.multiples(figure, 2 * len(variables), len(variables))
    for axes, under, variable in zip(above, below, variables, strict=True):
        rows = circuit.filter(variable=variable)
        for method, (label, color, dashes) in LABELS.items():
            of_method = data(rows).filter(method=method)
            style.line(axes, of_method, "edges", "accuracy", color=color, ls=dashes, label=label)
        if not style.largest(rows["programs"]):
            style.not_tested(axes)
        axes.set_title(VARIABLES[variable].title)
        axes.set_xscale("log")
        axes.set_xlim(0.9, 1.1 * len(rows))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set_xlabel("edges of the circuit")
        style.percent_axis(axes)
        under.axline((0, 0), slope=1, color=style.GRAY, lw=0.6)
        for method, marker in ESTIMATES.items():
            look = {"color": LABELS[method][1], "marker": marker, "ls": "", "ms": 3}
            under.plot(rows["effect"], rows[method], **look)
        under.set_xlabel("measured effect")
    above[0].set_ylabel("answers that stay right")
    below[0].set_ylabel("estimated effect")
    style.legend(figure, above, ncols=4)
    return figure
