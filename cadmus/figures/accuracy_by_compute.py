"""Error on each sub-problem against training compute."""

import polars as pl
from matplotlib.figure import Figure

from cadmus.evaluate.grading import MODEL
from cadmus.evaluate.results import CEILING, accuracy_by
from cadmus.figures import panels, style


def data(curve: pl.DataFrame, completions: pl.DataFrame) -> pl.DataFrame:
    """Return the plotted accuracies by question, policy and compute; only the model's change with compute."""
    found = accuracy_by(completions, "question")
    found = found.filter((pl.col("policy") != MODEL) | (pl.col("metric") == CEILING))
    snapshots = curve.select("step", "tokens", "flops").unique(maintain_order=True)
    constant = snapshots.join(found, how="cross").select(curve.columns)
    return panels.plotted(pl.concat([curve, constant]), "flops")


def draw(curve: pl.DataFrame, completions: pl.DataFrame) -> Figure:
    """Draw the results of ``cadmus evaluate curve`` and baselines of ``cadmus evaluate completions``."""
    drawn = data(curve, completions)
    figure = panels.by_question(drawn, "flops", "training compute, FLOPs", error=True)
    style.log_axis(figure.axes[0])
    return figure
