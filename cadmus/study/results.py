"""The results of all runs of a study as one tidy table."""

import json
from pathlib import Path
from typing import Annotated, NamedTuple

import polars as pl
from pydantic import Field, Json

from cadmus import experiments, store
from cadmus.columns import COUNT, LABEL, MEASURED, NAME, POSITIVE, POSITIVE_NUMBER, Table
from cadmus.config import digest
from cadmus.config.fields import Distinct, RunName
from cadmus.config.study import LOSSES, TRAINING_LOSSES, Run, StudyRuns
from cadmus.errors import InputError, suggest
from cadmus.model.flops import parameter_count
from cadmus.records import Record, Sealed

_MEASURED = {"experiment": NAME, **MEASURED.columns}
TABLE = Table(
    {
        "study": LABEL,
        "variant": LABEL,
        "seed": COUNT,
        **_MEASURED,
        "parameters": POSITIVE,
        "programs": POSITIVE,
        "flops": POSITIVE_NUMBER,
        "seconds": POSITIVE_NUMBER,
        "matmul_rate": POSITIVE_NUMBER.or_null(),
        "directory": LABEL,
        "config_digest": LABEL,
    },
    {"value: must be at most 1, as an accuracy": (pl.col("value") <= 1) | pl.col("metric").is_in(LOSSES)},
)
"""The results, described in ``docs/columns.md``."""
_SCHEMA = Table(_MEASURED).schema
Label = Annotated[str, Field(pattern=f"^(?:{LABEL.pattern})$", max_length=LABEL.longest)]
MINUTES = pl.col("seconds") * pl.col("matmul_rate") / 1e12 / 60
"""Minutes of a training if matrix products did 1e12 FLOPs per second, as two cores with bf16 do."""
TRAINING = "train"
"""Experiment of the losses of a training."""
LAST = 0.1
"""Part of the steps, the last ones, over which losses are averaged: as many programs for all batch sizes."""
Missing = tuple[str, int, str]
"""Variant, seed and reason of a run without results: the stage that failed or did not start, and why."""


class Described(Record):
    """Fields of the section of a study (:class:`cadmus.config.study.Study`), and the missing runs."""

    missing: list[tuple[Label, int, str]]
    name: RunName
    question: str
    base: Label
    compare: Distinct[str]


class _Metadata(Sealed):
    study: Json[Described]


class Results(NamedTuple):
    """The results of a study, and fields of its section (:class:`cadmus.config.study.Study`)."""

    rows: pl.DataFrame
    """See :data:`TABLE`."""
    commit: str
    """Of the code that collected them."""
    missing: list[Missing]
    name: str
    question: str
    base: str
    compare: list[str]


def collect(study: StudyRuns, results: Path, output: Path) -> list[Missing]:
    """Write the results of all finished runs to one Parquet file, and return the runs without results."""
    finished, missing = [], list[Missing]()
    for run in study.runs:
        reason = unfinished(study, run, results)
        if reason is None:
            finished.append(_rows(study, run, results))
        else:
            missing.append((run.variant, run.seed, reason))
    if not finished:
        variant, seed, reason = missing[0]
        raise InputError(f"{study.name}: no run is finished; {variant}, seed {seed}: {reason}")
    fields = study.study.model_dump(include={"question", "compare"})
    described = {"name": study.name, "base": study.base, **fields, "missing": missing}
    store.write_parquet(output, "study", pl.concat(finished), {"study": json.dumps(described)})
    return missing


def read(path: Path) -> Results:
    """Read what :func:`collect` wrote."""
    rows, metadata = store.read_parquet(path, "study", TABLE, _Metadata)
    study, metrics = metadata.study, sorted(rows["metric"].unique())
    for metric in study.compare:
        # Some metrics are undefined for all templates of a run, such as `fits`.
        if metric not in metrics:
            raise InputError(f"{path}: study.compare: no metric {metric!r}; {suggest(metric, metrics)}")
    return Results(rows, metadata.cadmus.commit, **study.model_dump())


def unfinished(study: StudyRuns, run: Run, results: Path) -> str | None:
    """Return why a run has no results, by the last line of its log; None if it has."""
    dataset, training, evaluation = (results / name for name in (run.dataset, run.training, run.evaluation))
    # In the order in which they are written.
    files = {
        dataset / "logs/manifest.log": dataset / "dataset/manifest.json",
        training / "logs/train.log": training / "training/metrics.jsonl",
    }
    for name in study.study.experiments:
        files[evaluation / f"logs/{name}.log"] = evaluation / f"experiments/{name}.parquet"
    for log, file in files.items():
        if not file.exists():
            lines = log.read_text(encoding="utf-8", errors="replace").split("\n") if log.exists() else []
            last = next((line.strip() for line in reversed(lines) if line.strip()), "did not start")
            return f"{log.stem}: {last.removeprefix('cadmus: error: ')}"
    return None


def _rows(study: StudyRuns, run: Run, results: Path) -> pl.DataFrame:
    """Return the rows of a finished run."""
    # It imports PyTorch, which the figures of a study do without.
    from cadmus.model.export import read_metadata

    metrics = results / run.training / "training/metrics.jsonl"
    steps, _ = store.read_results(metrics, experiments.table("metrics"))
    last = steps.tail(max(1, round(LAST * len(steps))))
    parts = [_measured(TRAINING, name, last[name].to_numpy().mean(), len(last)) for name in TRAINING_LOSSES]
    for name in study.study.experiments:
        path = results / run.evaluation / f"experiments/{name}.parquet"
        parts.append(measured_by(name, store.read_results(path, experiments.table(name))[0]))
    trained = read_metadata(results / run.training / "model")
    rows = pl.concat(parts).with_columns(
        study=pl.lit(study.name),
        variant=pl.lit(run.variant),
        seed=run.seed,
        parameters=parameter_count(run.config.model),
        programs=steps["programs"][-1],
        flops=steps["flops"][-1],
        seconds=steps["seconds"][-1],
        matmul_rate=trained.matmul_rate,
        directory=pl.lit(run.training),
        config_digest=pl.lit(digest(run.config.model_dump())),
    )
    return rows.select(pl.col(name).cast(kind) for name, kind in TABLE.schema.items())


def measured_by(experiment: str, results: pl.DataFrame) -> pl.DataFrame:
    """Return experiment, template, metric, value, n and baseline of the results of an experiment."""
    rows = experiments.get(experiment).measured(results)
    return rows.select(pl.lit(experiment).alias("experiment"), *MEASURED.columns).cast(_SCHEMA)


def _measured(experiment: str, metric: str, value: float, n: int) -> pl.DataFrame:
    """Return the row of a loss, which has no template and no baseline."""
    row = (experiment, "", metric, float(value), int(n), None)
    return pl.DataFrame([row], _SCHEMA, orient="row")
