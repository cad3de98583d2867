"""Accuracy of induction against the number of examples in the prompt."""

import polars as pl

from cadmus.evaluate.intervals import percent
from cadmus.evaluate.results import CEILING, METRICS, best_baseline, by_examples
from cadmus.figures import tables

data = by_examples


def table(completions: pl.DataFrame) -> pl.DataFrame:
    """Return the accuracies in percent, with 95% intervals."""
    shown = {metric: METRICS[metric] for metric in ("solved", "fits")}
    rows = []
    for (examples,), part in data(completions).group_by(["examples"], maintain_order=True):
        model = {row["metric"]: row for row in part.filter(policy="model").iter_rows(named=True)}
        best = [tables.best_accuracy(best_baseline(part, metric)) for metric in shown]
        accuracies = [tables.accuracy(model[metric]) for metric in shown]
        possible = percent(model[CEILING]["accuracy"])
        rows.append((f"{examples}", f"{model['solved']['programs']:,}", *accuracies, possible, *best))
    baselines = [f"Best baseline, {name.lower()}" for name in shown.values()]
    headings = ("Examples", "Tested", *shown.values(), "Best possible, solved", *baselines)
    return pl.DataFrame(rows, dict.fromkeys(headings, pl.String), orient="row")
