"""The results of all runs of a study as one tidy table."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from cadmus import experiments, store
from cadmus.config import digest
from cadmus.config.study import (
    HELD_OUT_LOSS,
    TRAINING_LOSSES,
    Run,
    StudyRuns,
    level_text,
)
from cadmus.errors import InputError, suggest
from cadmus.evaluate.grading import MODEL
from cadmus.evaluate.results import read_results
from cadmus.model.flops import parameter_count

COLUMNS: dict[str, Any] = {
    "study": pl.String,
    "variant": pl.String,
    "seed": pl.Int64,
    "experiment": pl.String,
    "template": pl.String,
    "metric": pl.String,
    "value": pl.Float64,
    "n": pl.Int64,
    "baseline": pl.Float64,
    "parameters": pl.Int64,
    "programs": pl.Int64,
    "flops": pl.Float64,
    "seconds": pl.Float64,
    "directory": pl.String,
    "config_digest": pl.String,
}
"""Columns of the results.

The column template has the question or, of the comparison grid, the region; baseline is the value of the best
baseline; n counts the programs, or the steps of a mean loss; parameters, programs, flops and seconds are
those of the training, whose results are in directory, a path in the directory of all results. A column per
factor, with its levels as text, follows.
"""
TRAINING = "train"
"""Experiment of the losses of a training."""
LAST = 0.1
"""Part of the steps, the last ones, over which losses are averaged: as many programs for all batch sizes."""


class Missing(NamedTuple):
    """A run without results: the stage that failed or did not start, and why."""

    variant: str
    seed: int
    reason: str


class Results(NamedTuple):
    """The results of a study.

    Attributes:
        rows: see :data:`COLUMNS`.
        name, question, base: of the study; base is the variant that the others are compared with.
        compare: metrics to compare.
        factors: those with several levels.
        law_flops: FLOPs of a scaling law; none is fitted if empty.
        missing: runs without results.
        commit: of the code that collected them.
    """

    rows: pl.DataFrame
    name: str
    question: str
    base: str
    compare: list[str]
    factors: list[str]
    law_flops: list[float]
    missing: list[Missing]
    commit: str


def collect(study: StudyRuns, results: Path, output: Path, elsewhere: Iterable[Path] = ()) -> list[Missing]:
    """Write the results of all finished runs to one Parquet file.

    Args:
        study: its runs.
        results: directory of all results.
        output: file to write.
        elsewhere: files of this function, from other machines. A run that is not finished here is taken
            from the first of them that has one of the same config with the same experiments.

    Returns:
        The runs without results.
    """
    rows, missing = [], []
    others = [read(path).rows for path in elsewhere]
    for run in study.runs:
        reason = unfinished(study, run, results)
        if reason is None:
            rows.append(_rows(study, run, results))
        elif (found := _rows_of(study, run, others)) is not None:
            rows.append(found)
        else:
            missing.append(Missing(run.variant, run.seed, reason))
    if not rows:
        first = missing[0]
        raise InputError(
            f"{study.name}: no run is finished; {first.variant}, seed {first.seed}: {first.reason}"
        )
    described = {
        "question": study.study.question,
        "base": study.base,
        "compare": study.study.compare,
        "factors": study.factors,
        "law_flops": study.study.law_flops,
        "missing": missing,
    }
    metadata = {"study": json.dumps({"name": study.name, **described})}
    store.write_parquet(output, "study", pl.concat(rows), metadata)
    return missing


def read(path: Path) -> Results:
    """Read what :func:`collect` wrote."""
    rows, metadata = store.read_parquet(path, "study")
    described = json.loads(metadata["study"])
    found = sorted(rows["metric"].unique())
    for metric in described["compare"]:
        if metric not in found:
            raise InputError(f"{path}: study.compare: no metric {metric!r}; {suggest(metric, found)}")
    return Results(
        rows,
        described["name"],
        described["question"],
        described["base"],
        described["compare"],
        described["factors"],
        described["law_flops"],
        [Missing(*missing) for missing in described["missing"]],
        metadata[store.HEADER]["commit"],
    )


def _files(study: StudyRuns, run: Run, results: Path) -> Iterator[tuple[Path, Path]]:
    """Yield the files of a run, in the order in which they are written, and the log of each."""
    dataset, training, evaluation = (results / name for name in (run.dataset, run.training, run.evaluation))
    yield dataset / "dataset/manifest.json", dataset / "logs/manifest.log"
    yield training / "training/metrics.jsonl", training / "logs/train.log"
    for name in study.study.experiments:
        yield evaluation / f"experiments/{name}.parquet", evaluation / f"logs/{name}.log"


def unfinished(study: StudyRuns, run: Run, results: Path) -> str | None:
    """Return why a run has no results, by the last line of its log; None if it has."""
    for file, log in _files(study, run, results):
        if file.exists():
            continue
        lines = log.read_text(encoding="utf-8", errors="replace").split("\n") if log.exists() else []
        last = next((line.strip() for line in reversed(lines) if line.strip()), "did not start")
        return f"{log.stem}: {last.removeprefix('cadmus: error: ')}"
    return None


def _rows(study: StudyRuns, run: Run, results: Path) -> pl.DataFrame:
    training = results / run.training
    steps, _ = read_results(training / "training/metrics.jsonl", experiments.columns("metrics"))
    last = steps.tail(max(1, round(LAST * len(steps))))
    found = [
        {"experiment": TRAINING, **_row("", name, last[name].to_numpy().mean(), len(last))}
        for name in TRAINING_LOSSES
    ]
    for name in study.study.experiments:
        path = results / run.evaluation / f"experiments/{name}.parquet"
        measured, _ = read_results(path, experiments.columns(name))
        found += [{"experiment": name, **row} for row in _summary(name, measured)]
    common = {
        **_place(study, run),
        "parameters": parameter_count(run.config.model),
        "programs": steps["programs"][-1],
        "flops": steps["flops"][-1],
        "seconds": steps["seconds"][-1],
        "directory": run.training,
    }
    schema = {**COLUMNS, **dict.fromkeys(study.factors, pl.String)}
    return pl.DataFrame([{**common, **row} for row in found], schema)


def _rows_of(study: StudyRuns, run: Run, others: list[pl.DataFrame]) -> pl.DataFrame | None:
    """Return the rows of a run from the results of other machines, or None if they have none."""
    place = _place(study, run)
    for rows in others:
        found = rows.filter(config_digest=place["config_digest"])
        if {TRAINING, *study.study.experiments} <= set(found["experiment"]):
            wanted = found["experiment"].is_in([TRAINING, *study.study.experiments])
            columns = [
                pl.lit(value, COLUMNS.get(name, pl.String)).alias(name) for name, value in place.items()
            ]
            return found.filter(wanted).with_columns(columns).select(*COLUMNS, *study.factors)
    return None


def _place(study: StudyRuns, run: Run) -> dict[str, Any]:
    """Return the columns that name the study and the run of a row."""
    return {
        "study": study.name,
        "variant": run.variant,
        "seed": run.seed,
        "config_digest": digest(run.config.model_dump()),
        **{factor: level_text(run.levels[factor]) for factor in study.factors},
    }


def _summary(experiment: str, measured: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield template, metric, value, n and baseline from the summary of an experiment."""
    summarize = experiments.get(experiment).summary
    assert summarize is not None
    summary = summarize(measured)
    if "loss" in summary.columns:
        losses, tokens, programs = (summary[name].to_numpy() for name in ("loss", "tokens", "programs"))
        yield _row("", HELD_OUT_LOSS, np.average(losses, weights=tokens), programs.sum())
        return
    if "policy" not in summary.columns:
        for row in summary.filter(pl.col("programs") > 0).iter_rows(named=True):
            region = row[summary.columns[0]]
            yield _row(region, "accuracy", row["accuracy"], row["programs"], row.get("baseline"))
        return
    metric = pl.col("metric")
    if "k" in summary.columns:
        summary = summary.with_columns(pl.concat_str(metric, pl.lit("@"), pl.col("k")).alias("metric"))
    of_baselines = summary.filter(pl.col("policy") != MODEL)
    best = of_baselines.group_by("question", "metric").agg(pl.col("accuracy").max().alias("baseline"))
    for row in summary.filter(policy=MODEL).join(best, ["question", "metric"], "left").iter_rows(named=True):
        yield _row(row["question"], row["metric"], row["accuracy"], row["programs"], row["baseline"])


def _row(template: str, metric: str, value: float, n: int, baseline: float | None = None) -> dict[str, Any]:
    return {"template": template, "metric": metric, "value": value, "n": n, "baseline": baseline}
