"""Accuracy on near-duplicates: test programs that ask about a thing that a training program asks about."""

import polars as pl
from matplotlib.figure import Figure

from cadmus.evaluate.questions import in_order, title
from cadmus.evaluate.statistics.results import accuracy_by
from cadmus.figures import style

_FEWEST = 30
"""Programs, seen and not, from which a question is drawn."""


def data(completions: pl.DataFrame) -> pl.DataFrame:
    """Return the accuracy of each policy by question and seen: 1 for near-duplicates, 0 for the others."""
    counted = completions.with_columns(pl.col("seen").cast(pl.Int64))
    return in_order(accuracy_by(counted, "question", "seen").filter(metric="solved"), "seen")


def draw(completions: pl.DataFrame) -> Figure:
    """Draw the accuracy of the model on near-duplicates and on the others as paired dots."""
    accuracies = data(completions).filter(policy="model")
    has_both, has_enough = pl.len() == 2, pl.col("programs").min() >= _FEWEST
    accuracies = accuracies.filter((has_both & has_enough).over("question"))
    names = list(reversed(dict.fromkeys(accuracies["question"])))
    figure = Figure(figsize=(style.COLUMN, 0.9 + 0.28 * max(1, len(names))))
    axes = figure.subplots()
    if not names:
        style.not_tested(axes)
    looks = {1: ("asked about in training", style.BLUE, "o", 0.1), 0: ("not", style.ORANGE, "D", -0.1)}
    for seen, (label, color, marker, shift) in looks.items():
        rows = accuracies.filter(seen=seen)
        heights = [names.index(name) + shift for name in rows["question"]]
        bars = [rows["accuracy"] - rows["low"], rows["high"] - rows["accuracy"]]
        axes.errorbar(rows["accuracy"], heights, xerr=bars, fmt=marker, color=color, ms=4, label=label)
    axes.set_yticks(range(len(names)), [title(name) for name in names])
    axes.xaxis.set_major_formatter(style.PERCENT)
    axes.set(xlabel="solved", ylim=(-0.6, len(names) - 0.4))
    axes.grid(True, axis="x")
    style.legend(figure, [axes], ncols=2)
    return figure
