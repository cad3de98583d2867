"""Table 3: accuracy on each sub-problem, compared with the paper."""

from typing import Any

import polars as pl

from cadmus.config import TEMPLATES
from cadmus.evaluate.intervals import as_text
from cadmus.evaluate.results import METRICS, SOLVE, accuracy_by
from cadmus.figures import reported

COLUMNS = (("template", "training_programs", *METRICS),)


def table(completions: pl.DataFrame) -> pl.DataFrame:
    """Return the accuracies of ``cadmus evaluate completions`` in percent, with 95% intervals.

    ``equality, solve``, equality programs completed from after the first expression, is not in the paper.
    """
    accuracies = accuracy_by(completions, "template", "training_programs")
    rows = []
    for name in (*TEMPLATES[:2], SOLVE, *TEMPLATES[2:]):
        of_template = {row["metric"]: row for row in accuracies.filter(template=name).iter_rows(named=True)}
        if not of_template:
            continue
        counts = next(iter(of_template.values()))
        samples, accuracy = reported.TABLE3.get(name, (None, None))
        rows.append(
            {
                "Sub-problem": name.replace("_solve", ", solve").replace("_", " "),
                "Training programs": f"{counts['training_programs']:,}",
                "Tested": f"{counts['programs']:,}",
                **{title: _as_text(of_template.get(metric)) for metric, title in METRICS.items()},
                "Paper: training programs": f"{samples:,}" if samples else "",
                "Paper: accuracy": f"{100 * accuracy:.0f} %" if accuracy else "",
            }
        )
    return pl.DataFrame(rows)


def _as_text(row: dict[str, Any] | None) -> str:
    return "" if row is None else as_text(row["accuracy"], row["low"], row["high"])
