"""Result files: written by experiments, read by figures and tables."""

from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl

from cadmus.common.files import replacing
from cadmus.common.parquet import read_parquet
from cadmus.errors import InputError, near_path, reading, suggest
from cadmus.evaluate.intervals import bootstrap, gap_interval, resampled, wilson

METRICS = {
    "solved": "Solved",
    "fits": "Fits examples",
    "exact": "Exact",
    "next_token": "Next token",
    "verified": "Verified",
}
"""Metrics, which are columns of :func:`cadmus.evaluate.grading.grade`, and their titles in tables."""


TYPES: dict[str, type[pl.DataType]] = {
    "text": pl.String,
    "true and false": pl.Boolean,
    "whole numbers": pl.Int64,
    "numbers": pl.Float64,
}
"""Types of columns by the kind of their values."""
COUNT = 1e12
"""Largest count; sums of larger ones could overflow."""


class Column(NamedTuple):
    """What a column may hold.

    Attributes:
        kind: of its values; a metric is a flag or, with several samples, a count.
        gaps: whether it may be null in some rows.
        low: smallest number.
        high: largest number.
    """

    kind: Literal["text", "true and false", "whole numbers", "numbers"]
    gaps: bool = False
    low: float = 0
    high: float = np.inf


# fmt: off
COLUMNS = {
    name: column
    for column, names in {
        Column("text"): [
            "policy", "template", "question", "asked", "metric", "target", "model", "symbols", "program",
            "completion", "outcome", "region", "study", "variant", "experiment", "directory", "config_digest",
        ],
        Column("true and false"): ["ended", "uses_drop", "seen", "in_distribution"],
        Column("true and false", gaps=True): ["in_grid", "greedy_solved"],
        Column("whole numbers", low=-1_000, high=1_000): ["x", "y"],
        Column("whole numbers", high=1_000): ["layer", "token", "prompt_length"],
        Column("whole numbers", low=1, high=1_000_000): ["samples"],
        Column("whole numbers", low=1, high=10**18): ["tokens"],
        Column("whole numbers"): ["seed"],
        Column("whole numbers", high=COUNT): ["step", "programs", "max_output_tokens"],
        Column("whole numbers", gaps=True, high=COUNT): [
            *METRICS, "correct", "training_programs", "distinct_solved", "less", "equal", "greater",
            "operators", "linear",
            "agreeing", "predicted", "output_tokens", "n", "parameters",
        ],
        Column("numbers"): ["loss", "completion_loss", "flops", "seconds", "value"],
        Column("numbers", gaps=True): [
            "baseline", "usd", "mean_length", "majority", "control", "inverse_regularisation",
            "prefix_optimum",
        ],
        Column("numbers", gaps=True, high=1): ["accuracy", "low", "high", "share"],
    }.items()
    for name in names
}
# fmt: on
"""Known columns; an experiment that was added may write others."""


def with_accuracy(results: pl.DataFrame) -> pl.DataFrame:
    """Add ``accuracy`` and its interval ``low``, ``high`` to the counts ``programs`` and ``correct``.

    All three are null where ``programs`` is 0.
    """
    programs = results["programs"].to_numpy()
    correct = results["correct"].fill_null(0).to_numpy()
    low, high = wilson(correct, programs)
    tested = pl.col("programs") > 0
    accuracy = correct / np.maximum(programs, 1)
    return results.with_columns(
        pl.when(tested).then(pl.Series(name, column)).alias(name)
        for name, column in (("accuracy", accuracy), ("low", low), ("high", high))
    )


def accuracy_by(completions: pl.DataFrame, *keys: str) -> pl.DataFrame:
    """Compute the accuracy of each policy by each metric, with bootstrap intervals.

    Programs are resampled in clusters that are asked about the same thing; with a column seed, whose values
    tell the trainings apart, the seeds are resampled as well.

    Args:
        completions: from :func:`cadmus.evaluate.grading.grade`.
        keys: columns to group by.

    Returns:
        The keys, policy, metric, programs, correct, accuracy, low, high; groups and policies in the order of
        the completions, metrics in that of :data:`METRICS`. A metric is absent where it is not defined.
    """
    rows = []
    for group, part in _groups(completions, keys):
        for (policy,), graded in part.group_by(["policy"], maintain_order=True):
            metrics = [metric for metric in METRICS if not graded[metric].has_nulls()]
            correct, programs = by_cluster(graded, metrics)
            low, high = bootstrap(correct, programs)
            hits, n = correct.sum((0, 1)), len(graded)
            for metric, of_metric, *interval in zip(metrics, hits, low, high, strict=True):
                rows.append((*group, policy, metric, n, int(of_metric), of_metric / n, *map(float, interval)))
    counts = {"policy": pl.String, "metric": pl.String, "programs": pl.Int64, "correct": pl.Int64}
    return _frame(
        rows, completions, keys, {**counts, **dict.fromkeys(("accuracy", "low", "high"), pl.Float64)}
    )


def gaps_by(completions: pl.DataFrame, *keys: str, metric: str = "solved") -> pl.DataFrame:
    """Compute the gap between the model and the best baseline.

    Args:
        completions: of the model and the baselines, for the same programs.
        keys: columns to group by.
        metric: one of :data:`METRICS`; groups where it is not defined are left out.

    Returns:
        The keys, baseline (the best one, the first of equals), gap (accuracy of the model minus the
        baseline's), low, high: the 95% bootstrap interval, with the same resamples for both.

    Raises:
        InputError: no such metric, or the best baseline completed other programs than the model.
    """
    if metric not in METRICS:
        raise InputError(f"no metric {metric!r}; {suggest(metric, METRICS)}")
    rows = []
    for group, part in _groups(completions, keys):
        graded = {policy: rest for (policy,), rest in part.group_by(["policy"], maintain_order=True)}
        model = graded.pop("model", None)
        if model is None or not graded or model[metric].has_nulls():
            continue
        best = max(graded, key=lambda policy: graded[policy][metric].sum())
        if not model["asked"].equals(graded[best]["asked"]):
            raise InputError(
                f"policy {best}: completed other programs than the model; evaluate both together"
            )
        both = model.with_columns(graded[best][metric].alias("baseline"))
        correct, programs = by_cluster(both, [metric, "baseline"])
        ours_solved, theirs_solved = correct.sum((0, 1))
        gap = float(ours_solved - theirs_solved) / len(model)
        rows.append((*group, best, gap, *gap_interval(correct, programs)))
    fractions = dict.fromkeys(("gap", "low", "high"), pl.Float64)
    return _frame(rows, completions, keys, {"baseline": pl.String, **fractions})


def loss_by(losses: pl.DataFrame, *keys: str) -> pl.DataFrame:
    """Compute the mean loss per token.

    Args:
        losses: from :func:`cadmus.experiments.loss.completion_losses`.
        keys: columns to group by; none for all rows together.

    Returns:
        The keys, programs, tokens, loss (nats), low, high: the 95% bootstrap interval over programs.
    """
    rows = []
    for group, part in _groups(losses, keys):
        tokens = part["tokens"].to_numpy()
        total = part["loss"].to_numpy() * tokens
        low, high = np.quantile(resampled(total[None, :, None], tokens[None]), [0.025, 0.975])
        n = int(tokens.sum())
        rows.append((*group, len(part), n, float(total.sum()) / n, float(low), float(high)))
    columns = {"programs": pl.Int64, "tokens": pl.Int64}
    return _frame(rows, losses, keys, {**columns, **dict.fromkeys(("loss", "low", "high"), pl.Float64)})


def best_baseline(accuracies: pl.DataFrame, metric: str = "solved") -> pl.DataFrame:
    """Return the rows of the baseline with the highest accuracy over all rows: none without baselines.

    Args:
        accuracies: from :func:`accuracy_by`, of one question; null for absent baselines.
        metric: one of :data:`METRICS`, whose rows are returned.
    """
    present = pl.col("accuracy").is_not_null()
    of_baselines = accuracies.filter(pl.col("policy") != "model", present, metric=metric)
    best = (
        of_baselines.group_by("policy", maintain_order=True)
        .agg((pl.col("correct").sum() / pl.col("programs").sum()).alias("accuracy"))
        .sort("accuracy", descending=True, maintain_order=True)
    )
    return of_baselines.filter(pl.col("policy").is_in(best["policy"].head(1).implode()))


def _groups(
    completions: pl.DataFrame, keys: tuple[str, ...]
) -> Iterator[tuple[tuple[Any, ...], pl.DataFrame]]:
    if not keys:
        yield (), completions
        return
    yield from completions.group_by(keys, maintain_order=True)


def _frame(
    rows: list[tuple[Any, ...]], of: pl.DataFrame, keys: tuple[str, ...], columns: dict[str, Any]
) -> pl.DataFrame:
    """Return rows of the keys, with their types in ``of``, and other columns."""
    schema: dict[str, Any] = {**{key: of.schema[key] for key in keys}, **columns}
    return pl.DataFrame(rows, schema, orient="row")


def by_cluster(graded: pl.DataFrame, columns: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the arguments of :func:`cadmus.evaluate.intervals.bootstrap` for some columns.

    Args:
        graded: one row per program, clustered by the column asked and told apart by the column seed, if any.
        columns: truth values or probabilities of being right.
    """
    _, cluster = np.unique(graded["asked"].to_numpy().astype(str), return_inverse=True)
    seeds = graded["seed"].to_numpy() if "seed" in graded.columns else np.zeros(len(graded))
    _, seed = np.unique(seeds, return_inverse=True)
    shape = seed.max() + 1, cluster.max() + 1
    programs = np.zeros(shape)
    correct = np.zeros((*shape, len(columns)))
    np.add.at(programs, (seed, cluster), 1)
    np.add.at(correct, (seed, cluster), graded.select(columns).to_numpy().astype(np.float64))
    return correct, programs


def write_results(results: pl.DataFrame, path: Path | str, metadata: dict[str, str]) -> None:
    """Write a Parquet file with ``metadata`` as key-value metadata.

    Raises:
        InputError: the file cannot be written.
    """
    with replacing(path) as temporary:
        results.write_parquet(temporary, compression="zstd", metadata=metadata)


def read_results(path: Path | str, columns: Collection[str]) -> pl.DataFrame:
    """Read a result file (Parquet, CSV or JSON lines, by its suffix) that has at least ``columns``.

    Columns of lists, structs or bytes are left out, such as the verdict of metrics.jsonl.

    Raises:
        InputError: the file is missing, damaged or empty, a column is missing or has a wrong type, gaps or
            values, or it holds completions with none of the model or with missing metrics.
    """
    path = Path(path)
    readers: dict[str, Callable[[Path], pl.DataFrame]] = {
        ".parquet": read_parquet,
        ".csv": partial(pl.read_csv, infer_schema_length=None),
        ".jsonl": partial(pl.read_ndjson, infer_schema_length=None),
    }
    if path.suffix not in readers:
        raise InputError(f"{path}: not a result file; its suffix must be {' or '.join(readers)}")
    if not path.is_file():
        raise InputError(f"{path}: no such result file{near_path(path)}")
    with reading(path, "write it again"):
        results = readers[path.suffix](path)
    missing = [column for column in columns if column not in results.columns]
    if missing:
        raise InputError(
            f"{path}: no column {missing[0]!r}; needs {', '.join(columns)}; has {', '.join(results.columns)}"
        )
    if results.is_empty():
        raise InputError(f"{path}: has no rows; write it again")
    for column in columns:
        _check_column(results[column], path)
    # A column without any value has no type.
    absent = [name for name in columns if name in COLUMNS and results[name].dtype == pl.Null]
    results = results.cast({name: TYPES[COLUMNS[name].kind] for name in absent})
    # They cannot be written as CSV.
    unfit = [name for name, kind in results.schema.items() if kind.is_nested() or kind == pl.Binary]
    results = results.drop(unfit)
    if {"programs", "correct"} <= set(columns):
        _check_counts(results, path)
    if {"policy", "question", "solved"} <= set(columns):
        _check_completions(results, path)
    return results


def _check_column(column: pl.Series, path: Path) -> None:
    """Check type, gaps and range of a column, if it is known.

    Raises:
        InputError: one of them is wrong.
    """
    name, found = column.name, column.dtype
    if name not in COLUMNS:
        return
    kind, gaps, low, high = COLUMNS[name]
    fits = {
        "text": found == pl.String,
        "true and false": found == pl.Boolean,
        "whole numbers": found.is_integer() or (name in METRICS and found == pl.Boolean),
        "numbers": found.is_numeric(),
    }
    if not fits[kind] and column.null_count() < len(column):
        raise InputError(f"{path}: column {name!r} holds {found}, not {kind}; write it again")
    if column.has_nulls() and not gaps:
        raise InputError(f"{path}: {name}: is missing in some rows; write it again")
    if found.is_numeric():
        wrong = column.filter(~(column.is_between(low, high) & column.cast(pl.Float64).is_finite()))
        if len(wrong):
            allowed = "at least 0 and finite" if high == np.inf else f"{low} to {high:g}"
            raise InputError(f"{path}: {name}: must be {allowed}, got {wrong[0]}; write it again")


def _check_counts(results: pl.DataFrame, path: Path) -> None:
    """Check the counts of programs and of correct ones.

    Raises:
        InputError: one is missing or negative, or more programs are correct than there are.
    """
    programs = pl.col("programs")
    # Nothing is correct where nothing is tested.
    correct = pl.when(programs == 0).then(0).otherwise(pl.col("correct"))
    wrong = results.filter(~(correct.is_between(0, programs)).fill_null(False))
    if len(wrong):
        given = wrong.select("programs", "correct").row(0, named=True)
        raise InputError(
            f"{path}: correct: must be 0 to programs {given['programs']}, got {given['correct']}; "
            "write it again"
        )


def _check_completions(completions: pl.DataFrame, path: Path) -> None:
    """Check completions of the model and the baselines.

    Raises:
        InputError: there are none of the model, a metric is missing for some programs of a question, or the
            policies completed different programs.
    """
    if "model" not in completions["policy"]:
        raise InputError(f"{path}: policy: has no completions of the model; evaluate again")
    metrics = [metric for metric in METRICS if metric in completions.columns]
    induction = completions.filter(question="complete_algorithm")
    for metric, tested in (("solved", completions), ("verified", completions), ("fits", induction)):
        if metric in metrics and len(tested) and not tested[metric].count():
            raise InputError(f"{path}: {metric}: is missing for {tested['question'][0]}; evaluate again")
    sampled = "samples" in completions.columns
    for metric in metrics:
        found, defined_for = completions.schema[metric], completions[metric].count()
        # With several samples, a metric is how many of them are right.
        if defined_for and (found == pl.Boolean) == sampled:
            kind = "counts" if sampled else "true or false"
            raise InputError(f"{path}: {metric}: must be {kind}, got {found}; evaluate again")
    for metric in metrics if sampled else ():
        for most in ("samples", "verified") if metric == "solved" else ("samples",):
            if len(wrong := completions.filter(pl.col(metric) > pl.col(most))):
                counts = wrong.select(metric, most).row(0)
                raise InputError(f"{path}: {metric}: must be at most {most} {counts[1]}, got {counts[0]}")
    if "asked" in completions.columns:
        for (question,), of_question in completions.group_by(["question"]):
            asked = [part["asked"] for part in of_question.partition_by("policy")]
            if any(not asked[0].equals(other) for other in asked):
                raise InputError(
                    f"{path}: asked: differs between the policies on {question}; evaluate them together"
                )
    defined = completions.group_by("question").agg(pl.col(metrics).is_null().mean())
    for metric in metrics:
        partly = defined.filter(pl.col(metric).is_between(0, 1, closed="none"))
        if len(partly):
            raise InputError(
                f"{path}: {metric}: is missing for some programs of {partly['question'][0]}; evaluate again"
            )
