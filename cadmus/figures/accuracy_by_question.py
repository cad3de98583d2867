"""The accuracy on each question, between the best policy that executes nothing and the best possible."""

from typing import Any

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cadmus.evaluate.baselines.policies import EXECUTING
from cadmus.evaluate.statistics.results import CEILING, best_baseline
from cadmus.figures import style, table3_accuracy
from cadmus.figures.table3_accuracy import name

data = table3_accuracy.data


def draw(completions: pl.DataFrame) -> Figure:
    """Draw a row per question and, for induction, one for what fits the examples."""
    accuracies = data(completions)
    asked = accuracies.filter(pl.col("metric").is_in(["solved", "fits"]), policy="model").to_dicts()
    figure = Figure(figsize=(style.PAGE, 0.9 + 0.24 * len(asked)))
    axes = figure.subplots()
    for height, row in enumerate(reversed(asked)):
        question, metric = row["question"], row["metric"]
        of_question = accuracies.filter(question=question)
        ceilings = of_question.filter(policy="model", metric=CEILING)["accuracy"].to_list()
        best = ceilings[0] if ceilings and metric == "solved" else 1.0
        # Added templates may have no baseline.
        without = best_baseline(of_question.filter(pl.col("policy") != EXECUTING), metric)["accuracy"]
        for low in without:
            axes.plot([low, best], [height, height], color="#CCCCCC", lw=4, zorder=0, solid_capstyle="butt")
            _mark(axes, low, height, "D", "best baseline that executes nothing", color=style.GRAY)
        for high in of_question.filter(policy=EXECUTING, metric=metric)["accuracy"].drop_nulls():
            _mark(
                axes,
                high,
                height,
                "s",
                "search through the training completions",
                color=style.ORANGE,
                mfc="white",
            )
        _mark(axes, best, height, "|", "best possible", color="black", ms=11, mew=1.5)
        if row["paper"] is not None and row["paper"] <= best:
            _mark(axes, row["paper"], height, "x", "paper, 280M parameters", color=style.PURPLE)
        elif row["paper"] is not None:
            # No answer can be that good by our grade, as examples leave several functions open.
            label = "paper, by a looser grade"
            _mark(axes, row["paper"], height, "X", label, color=style.PURPLE, mfc="white", mew=0.8, ms=6)
        bars = [[row["accuracy"] - row["low"]], [row["high"] - row["accuracy"]]]
        _mark(axes, row["accuracy"], height, "o", "model", color=style.BLUE, xerr=bars)
    axes.set_yticks(range(len(asked)), [name(row["question"], row["metric"]) for row in reversed(asked)])
    axes.xaxis.set_major_formatter(style.PERCENT)
    axes.set(xlabel="solved", xlim=(0, 1.02), ylim=(-0.6, len(asked) - 0.4))
    axes.grid(True, axis="x")
    axes.set_axisbelow(True)
    style.legend(figure, [axes], ncols=3)
    return figure


def _mark(axes: Axes, x: float, y: int, marker: str, label: str, **look: Any) -> None:
    axes.errorbar(x, y, fmt=marker, label=label, **{"ms": 5, **look})
