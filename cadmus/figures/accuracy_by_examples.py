"""Accuracy of induction against the number of examples in the prompt."""

import polars as pl
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from cadmus.evaluate.breakdowns import by_examples
from cadmus.evaluate.results import METRICS
from cadmus.figures import style

COLUMNS = (("template", "program", "prompt_length", *METRICS),)
METRICS_SHOWN = {"verified": (style.ORANGE, "s"), "exact": (style.GREEN, "^")}


def data(completions: pl.DataFrame) -> pl.DataFrame:
    """Return the accuracy by number of examples."""
    return by_examples(completions)


def draw(completions: pl.DataFrame) -> Figure:
    """Draw the results of ``cadmus evaluate completions`` for complete_algorithm."""
    figure = Figure(figsize=(style.COLUMN, 2.5))
    axes = figure.subplots()
    examples = data(completions)
    for metric, (color, marker) in METRICS_SHOWN.items():
        rows = examples.filter(metric=metric)
        label = METRICS[metric].lower()
        style.line(axes, rows, "examples", "accuracy", color=color, marker=marker, label=label)
    if examples.is_empty():
        style.not_tested(axes)
    style.percent_axis(axes)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel="examples of the function in the prompt", ylabel="accuracy of the definition")
    figure.legend(loc="outside upper center", ncols=2)
    return figure
