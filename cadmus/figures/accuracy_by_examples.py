"""Accuracy of induction against the number of examples in the prompt."""

import polars as pl

from cadmus.evaluate.intervals import as_text
from cadmus.evaluate.results import METRICS, best_baseline, by_examples
from cadmus.figures import tables


def data(completions: pl.DataFrame) -> pl.DataFrame:
    """Return the accuracy of each policy by number of examples."""
    return by_examples(completions)


def table(completions: pl.DataFrame) -> pl.DataFrame:
    """Return the accuracies in percent, with 95% intervals."""
    results = data(completions)
    rows = []
    for (examples,), part in results.group_by(["examples"], maintain_order=True):
        model = {row["metric"]: row for row in part.filter(policy="model").iter_rows(named=True)}
        rows.append(
            {
                "Examples": f"{examples}",
                "Tested": f"{model['solved']['programs']:,}",
                **{
                    METRICS[metric]: as_text(*(model[metric][key] for key in ("accuracy", "low", "high")))
                    for metric in ("solved", "fits")
                },
                **{
                    f"Best baseline, {METRICS[metric].lower()}": tables.best_accuracy(
                        best_baseline(part, metric)
                    )
                    for metric in ("solved", "fits")
                },
            }
        )
    metrics = METRICS["solved"], METRICS["fits"]
    headings = ("Examples", "Tested", *metrics, *(f"Best baseline, {name.lower()}" for name in metrics))
    return pl.DataFrame(rows, dict.fromkeys(headings, pl.String))
