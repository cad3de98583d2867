"""The variants of a study compared: means over seeds, and paired differences to the base."""

from typing import Any

import numpy as np
import polars as pl

from cadmus.config.study import LOSSES
from cadmus.evaluate.statistics import intervals
from cadmus.study.results import Results

_COLUMNS: dict[str, Any] = {
    "metric": pl.String,
    "template": pl.String,
    "variant": pl.String,
    "seeds": pl.Int64,
    "mean": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "difference": pl.Float64,
    "difference_low": pl.Float64,
    "difference_high": pl.Float64,
    "baseline": pl.Float64,
}


def compare(results: Results) -> pl.DataFrame:
    """Compare the variants by each metric of ``study.compare``.

    Differences are those of a variant minus the base, over the seeds of both; they are null for the base and
    without a common seed. 95% intervals of accuracies are over seeds and programs, those of losses over
    seeds, so null for a single one; see :func:`~cadmus.evaluate.statistics.intervals.mean_interval`.
    ``baseline`` is the mean of the best baseline. Variants are in the order of the study.
    """
    rows = []
    for metric in results.compare:
        of_metric = results.rows.filter(metric=metric)
        for (template,), part in of_metric.group_by(["template"], maintain_order=True):
            by_variant: dict[str, dict[int, float]] = {}
            for variant, seed, value in part.select("variant", "seed", "value").iter_rows():
                by_variant.setdefault(variant, {})[seed] = value
            means = part.group_by("variant").agg(pl.col("baseline", "value").mean(), pl.col("n").min())
            baselines, errors = {}, {}
            for variant, baseline, accuracy, n in means.iter_rows():
                baselines[variant] = baseline
                errors[variant] = [] if metric in LOSSES else [intervals.programs_error(accuracy, n)]
            base = by_variant.get(results.base, {})
            for variant, by_seed in by_variant.items():
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
