"""The variants of a study compared: means over seeds, and paired differences to the base."""

from typing import Any

import numpy as np
import polars as pl

from cadmus.config.study import LOSSES
from cadmus.evaluate import intervals
from cadmus.evaluate.questions import title
from cadmus.study.results import Results

_INTERVALS = ("mean", "low", "high", "difference", "difference_low", "difference_high")
_COLUMNS: dict[str, Any] = {
    **dict.fromkeys(("metric", "template", "variant"), pl.String),
    "seeds": pl.Int64,
    **dict.fromkeys((*_INTERVALS, "baseline"), pl.Float64),
}


def compare(results: Results) -> pl.DataFrame:
    """Compare the variants by each metric of ``study.compare``.

    Differences are those of a variant minus the base, over the seeds of both; they are null for the base and
    without a common seed. 95% intervals of accuracies are over seeds and programs, those of losses over
    seeds, so null for a single one; see :func:`cadmus.evaluate.intervals.mean_interval`. ``baseline`` is the
    mean of the best baseline. Variants are in the order of the study.
    """
    rows = []
    for metric in results.compare:
        of_metric = results.rows.filter(metric=metric)
        for (template,), part in of_metric.group_by(["template"], maintain_order=True):
            values: dict[str, dict[int, float]] = {}
            for variant, seed, value in part.select("variant", "seed", "value").iter_rows():
                values.setdefault(variant, {})[seed] = value
            means = part.group_by("variant").agg(pl.col("baseline", "value").mean(), pl.col("n").min())
            baselines, errors = {}, {}
            for variant, baseline, accuracy, n in means.iter_rows():
                baselines[variant] = baseline
                errors[variant] = [] if metric in LOSSES else [intervals.programs_error(accuracy, n)]
            base = values.get(results.base, {})
            for variant, by_seed in values.items():
                common = [] if variant == results.base else sorted(by_seed.keys() & base.keys())
                differences = [by_seed[seed] - base[seed] for seed in common]
                mean = _interval(list(by_seed.values()), errors[variant])
                difference = _interval(differences, errors[variant] + errors.get(results.base, []))
                rows.append((metric, template, variant, len(by_seed), *mean, *difference, baselines[variant]))
    return pl.DataFrame(rows, _COLUMNS, orient="row")


def _interval(values: list[float], errors: list[float]) -> list[float | None]:
    """Return the mean and both bounds, null where they are unknown."""
    bounds = intervals.mean_interval(np.array(values), *errors) if values else (np.nan,) * 3
    return [None if np.isnan(bound) else bound for bound in bounds]


def tables(results: Results) -> dict[str, pl.DataFrame]:
    """Return the comparison as text: a table per metric, a row per template, a column per variant.

    The base has its mean, the others their difference to it, with 95% intervals; accuracies in percent and
    percentage points.
    """
    compared = compare(results)
    variants = compared["variant"].unique(maintain_order=True).to_list()
    variants.sort(key=lambda variant: variant != results.base)
    texts = {}
    for (metric,), part in compared.group_by(["metric"], maintain_order=True):
        is_loss = metric in LOSSES
        rows = []
        for (template,), of_template in part.group_by(["template"], maintain_order=True):
            cells = {row["variant"]: row for row in of_template.iter_rows(named=True)}
            row = {name: _cell(cells.get(name), name == results.base, is_loss) for name in variants}
            if not is_loss:
                baseline = of_template["baseline"][0]
                best = "" if baseline is None else intervals.percent(baseline)
                row = {"": title(str(template)), **row, "best baseline": best}
            rows.append(row)
        texts[str(metric)] = pl.DataFrame(rows)
    return texts


def _cell(row: dict[str, Any] | None, is_base: bool, is_loss: bool) -> str:
    if row is None:
        return "missing"
    value, low, high = (row[name] for name in (_INTERVALS[:3] if is_base else _INTERVALS[3:]))
    if value is None:
        return "no common seed"
    if is_loss:
        form = ".4f" if is_base else "+.4f"
        return f"{value:{form}}" + ("" if low is None else f" [{low:{form}}, {high:{form}}]")
    if is_base:
        return intervals.as_text(value, max(low, 0.0), min(high, 1.0))
    return intervals.gap_as_text(value, low, high)
