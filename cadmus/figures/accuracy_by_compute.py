"""Error on each sub-problem against training compute, and the power law that it follows, if it does."""

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from scipy import stats

from cadmus.evaluate.questions import title
from cadmus.evaluate.statistics.results import CEILING, MODEL, accuracy_by
from cadmus.figures import panels, style

_LEAST = 4
"""Snapshots from which a law is fitted."""


def data(curve: pl.DataFrame, completions: pl.DataFrame) -> pl.DataFrame:
    """Return the plotted accuracies by question, policy and compute; only the model's change with compute."""
    accuracies = accuracy_by(completions, "question")
    accuracies = accuracies.filter((pl.col("policy") != MODEL) | (pl.col("metric") == CEILING))
    snapshots = curve.select("step", "tokens", "flops", "reinforced").unique(maintain_order=True)
    constant = snapshots.join(accuracies, how="cross").select(curve.columns)
    return panels.plotted(pl.concat([curve, constant]), "flops")


def laws(curve: pl.DataFrame) -> pl.DataFrame:
    """Fit the logarithm of the error to that of the compute, by least squares, for each question.

    Only snapshots that have not trained by reinforcement count, and of those only the ones that err.
    ``exponent`` has a 95% interval, low and high, from the scatter of the snapshots; ``intercept`` and
    ``exponent`` are of natural logarithms, and ``fit`` is R².
    """
    rows = []
    erring = curve.filter(
        (pl.col("accuracy") < 1) & (pl.col("flops") > 0) & ~pl.col("reinforced"),
        policy=MODEL,
        metric="solved",
    )
    for (question,), part in erring.group_by(["question"], maintain_order=True):
        if len(part) < _LEAST:
            continue
        compute, error = np.log(part["flops"].to_numpy()), np.log(1 - part["accuracy"].to_numpy())
        fitted = stats.linregress(compute, error)
        half = stats.t.ppf(0.975, len(part) - 2) * fitted.stderr
        law = (fitted.intercept, fitted.slope, fitted.slope - half, fitted.slope + half, fitted.rvalue**2)
        rows.append((question, len(part), *map(float, law)))
    numbers = dict.fromkeys(("intercept", "exponent", "low", "high", "fit"), pl.Float64)
    return pl.DataFrame(rows, {"question": pl.String, "snapshots": pl.Int64, **numbers}, orient="row")


def draw(curve: pl.DataFrame, completions: pl.DataFrame) -> Figure:
    """Draw the results of ``cadmus evaluate curve`` and baselines of ``cadmus evaluate completions``."""
    points = data(curve, completions)
    figure = panels.by_question(points, "flops", "training compute, FLOPs", error=True)
    of_title = {axes.get_title(): axes for axes in figure.axes}
    flops = curve.filter(pl.col("flops") > 0)["flops"]
    for law in laws(curve).iter_rows(named=True):
        if axes := of_title.get(title(law["question"])):
            ends = np.array([flops.min(), flops.max()])
            errors = np.exp(law["intercept"]) * ends ** law["exponent"]
            axes.plot(ends, errors, "--", color=style.BLUE, lw=0.8)
            text = f"{law['exponent']:.2f} [{law['low']:.2f}, {law['high']:.2f}]"
            axes.text(0.03, 0.05, text, transform=axes.transAxes, fontsize=6, color=style.BLUE)
    reinforced = points.filter("reinforced", policy=MODEL, metric="solved")
    for (question,), part in reinforced.group_by(["question"], maintain_order=True):
        if axes := of_title.get(title(str(question))):
            error = (1 - part["accuracy"]).clip(panels.LEAST)
            axes.plot(part["flops"], error, "o", ls="", color=style.BLUE, mfc="white", zorder=3)
    style.log_axis(figure.axes[0])
    return figure
