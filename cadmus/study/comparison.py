"""The variants of a study compared: means over seeds, and paired differences to the base."""

from typing import Any

import numpy as np
import polars as pl

from cadmus.config.study import LOSSES
from cadmus.evaluate.intervals import (
    as_text,
    gap_as_text,
    loss_as_text,
    mean_interval,
    percent,
    programs_error,
)
from cadmus.evaluate.questions import title
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

    Returns:
        metric, template, variant, seeds (number of them), mean, low, high (95% interval), difference (variant
        minus base, mean over the seeds of both), difference_low, difference_high, baseline (mean of the best
        baseline). Intervals of accuracies are over seeds and programs, those of losses over seeds;
        see :func:`cadmus.evaluate.intervals.mean_interval`. Bounds are null for the loss of a single seed,
        differences for the base and without a common seed. Variants in the order of the study.

    """
    rows: list[dict[str, Any]] = []
    for metric in results.compare:
        for (template,), part in results.rows.filter(metric=metric).group_by(
            ["template"], maintain_order=True
        ):
            values = {
                str(variant): dict(of_variant.select("seed", "value").iter_rows())
                for (variant,), of_variant in part.group_by(["variant"], maintain_order=True)
            }
            base = values.get(results.base, {})
            of_variants = part.group_by("variant").agg(pl.col("baseline", "value").mean(), pl.col("n").min())
            baselines = dict(of_variants.select("variant", "baseline").iter_rows())
            errors = {
                variant: [] if metric in LOSSES or n is None else [programs_error(accuracy, n)]
                for variant, accuracy, n in of_variants.select("variant", "value", "n").iter_rows()
            }
            for variant, by_seed in values.items():
                row = {"metric": metric, "template": template, "variant": variant, "seeds": len(by_seed)}
                row |= _bounds("mean", "", list(by_seed.values()), errors[variant])
                common = [] if variant == results.base else sorted(by_seed.keys() & base.keys())
                differences = [by_seed[seed] - base[seed] for seed in common]
                of_both = errors[variant] + errors.get(results.base, [])
                row |= _bounds("difference", "difference_", differences, of_both)
                rows.append({**row, "baseline": baselines[variant]})
    return pl.DataFrame(rows, _COLUMNS)


def _bounds(name: str, prefix: str, values: list[float], errors: list[float]) -> dict[str, float | None]:
    bounds = mean_interval(np.array(values), *errors) if values else (None, None, None)
    names = (name, f"{prefix}low", f"{prefix}high")
    return {
        key: None if bound is None or np.isnan(bound) else bound
        for key, bound in zip(names, bounds, strict=True)
    }


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
            first: dict[str, str] = {} if is_loss else {"": title(str(template))}
            baseline = cells[next(iter(cells))]["baseline"]
            rows.append(
                {
                    **first,
                    **{name: _cell(cells.get(name), name == results.base, is_loss) for name in variants},
                    **({} if is_loss else {"best baseline": "" if baseline is None else percent(baseline)}),
                }
            )
        texts[str(metric)] = pl.DataFrame(rows)
    return texts


def _cell(row: dict[str, Any] | None, is_base: bool, is_loss: bool) -> str:
    if row is None:
        return "missing"
    if is_base:
        mean, low, high = row["mean"], row["low"], row["high"]
        if is_loss:
            return f"{mean:.4f}" if low is None else loss_as_text(mean, low, high)
        return percent(mean) if low is None else as_text(mean, max(low, 0.0), min(high, 1.0))
    gap, low, high = (row[f"difference{name}"] for name in ("", "_low", "_high"))
    if gap is None:
        return "no common seed"
    if is_loss:
        return f"{gap:+.4f}" if low is None else f"{gap:+.4f} [{low:+.4f}, {high:+.4f}]"
    return percent(gap, "", signed=True) if low is None else gap_as_text(gap, low, high)
