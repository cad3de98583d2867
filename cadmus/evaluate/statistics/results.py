"""Statistics of result files, for figures and tables."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import polars as pl

from cadmus.columns import MEASURED
from cadmus.config.evaluation import budgets
from cadmus.errors import InputError
from cadmus.evaluate.statistics.intervals import bootstrap, gap_interval, resampled, wilson

METRICS = {
    "solved": "Solved",
    "fits": "Fits examples",
    "exact": "Exact",
    "next_token": "Next token",
    "verified": "Verified",
}
"""Metrics, which are columns of :func:`cadmus.evaluate.grading.grade`, and their titles in tables."""

MODEL = "model"
"""The policy that is graded; the others are baselines."""
CEILING = "ceiling"
"""Column with the probability that the best possible answer is solved, in the rows of the model; a metric of
accuracies."""
COUNTS = ("solved", "verified", "fits")
"""Metrics that :func:`cadmus.evaluate.grading.grade_samples` counts."""


def measured(accuracies: pl.DataFrame) -> pl.DataFrame:
    """Return accuracies as studies compare them: those of the model, each with that of the best baseline.

    The columns are question, policy, metric, programs and accuracy; the result has those of
    :data:`cadmus.columns.MEASURED`.
    """
    of_baselines = accuracies.filter(pl.col("policy") != MODEL)
    best = of_baselines.group_by("question", "metric").agg(pl.col("accuracy").max().alias("baseline"))
    of_model = accuracies.filter(policy=MODEL).with_columns(template="question")
    rows = of_model.join(best, ["question", "metric"], "left", maintain_order="left")
    return rows.with_columns(value="accuracy", n="programs").select(*MEASURED.columns)


def at(name: str) -> pl.Expr:
    """Return the expression of metrics such as ``solved@8``, where the column ``name`` has the number."""
    return pl.format("{}@{}", "metric", name)


def with_accuracy(results: pl.DataFrame) -> pl.DataFrame:
    """Add ``accuracy`` and its interval ``low``, ``high`` to the counts ``programs`` and ``correct``.

    All three are null where ``programs`` is 0.
    """
    programs = results["programs"].to_numpy()
    correct = results["correct"].fill_null(0).to_numpy()
    low, high = wilson(correct, programs)
    columns = {"accuracy": correct / np.maximum(programs, 1), "low": low, "high": high}
    tested = pl.when(pl.col("programs") > 0)
    return results.with_columns(
        tested.then(pl.Series(name, values)).alias(name) for name, values in columns.items()
    )


def accuracy_by(completions: pl.DataFrame, *keys: str) -> pl.DataFrame:
    """Compute the accuracy of each policy by each metric, with bootstrap intervals.

    Programs are resampled in clusters that are asked about the same thing. Returns the keys, policy, metric,
    programs, correct, accuracy, low, high; groups and policies in the order of the completions, metrics in
    that of :data:`METRICS`, then :data:`CEILING`. A metric is absent where it is not defined.
    """
    defined = [metric for metric in (*METRICS, CEILING) if metric in completions.columns]

    def accuracies(part: pl.DataFrame) -> Iterator[tuple[Any, ...]]:
        for (policy,), graded in part.group_by(["policy"], maintain_order=True):
            metrics = [metric for metric in defined if not graded[metric].has_nulls()]
            bounds = bootstrap(*by_cluster(graded, metrics))
            n = len(graded)
            for metric, *interval in zip(metrics, *bounds, strict=True):
                hits = float(graded[metric].sum())  # of the ceiling, a sum of probabilities
                yield policy, metric, n, round(hits), hits / n, *map(float, interval)

    columns = {"policy": pl.String, "metric": pl.String, "programs": pl.Int64, "correct": pl.Int64}
    return by_group(completions, keys, columns, ("accuracy", "low", "high"), accuracies)


def induction_by(results: pl.DataFrame, key: str) -> pl.DataFrame:
    """Compute the accuracies of ``cadmus evaluate induction`` by split and a column ``key``.

    Returns these, policy, programs, correct (of the ceiling, its expected number), accuracy, low, high: the
    Wilson 95% interval.
    """
    policies = ["ceiling", "voted", "greedy", "prior"]
    long = results.with_columns(pl.col(policies).cast(pl.Float64)).unpivot(
        policies, index=["split", key], variable_name="policy", value_name="correct"
    )
    counts = long.group_by("split", key, "policy", maintain_order=True)
    # Polars counts in uint32, from which subtracting would wrap around.
    counted = counts.agg(pl.len().cast(pl.Int64).alias("programs"), pl.col("correct").sum())
    splits = pl.Enum(counted["split"].unique(maintain_order=True))
    return with_accuracy(counted.sort(pl.col("split").cast(splits), key, maintain_order=True))


def gaps_by(completions: pl.DataFrame, *keys: str, metric: str = "solved") -> pl.DataFrame:
    """Compute the gap between the model and the best baseline, which complete the same programs.

    Groups where the metric is not defined are left out. Returns the keys, baseline (the best one, the first
    of equals), gap (accuracy of the model minus the baseline's), low, high: the 95% bootstrap interval, with
    the same resamples for both.
    """

    def gap(part: pl.DataFrame) -> Iterator[tuple[Any, ...]]:
        graded = {policy: rest for (policy,), rest in part.group_by(["policy"], maintain_order=True)}
        model = graded.pop("model", None)
        if model is None or not graded or model[metric].has_nulls():
            return
        best = max(graded, key=lambda policy: graded[policy][metric].sum())
        # The gap is paired by row, so both must have the same programs.
        if not model["subject"].equals(graded[best]["subject"]):
            raise InputError(f"policy {best}: completed other programs than the model")
        both = model.with_columns(graded[best][metric].alias("baseline"))
        correct, programs = by_cluster(both, [metric, "baseline"])
        ours_solved, theirs_solved = correct.sum(0)
        yield best, float(ours_solved - theirs_solved) / len(model), *gap_interval(correct, programs)

    return by_group(completions, keys, {"baseline": pl.String}, ("gap", "low", "high"), gap)


def loss_by(losses: pl.DataFrame, *keys: str) -> pl.DataFrame:
    """Compute the mean loss per token from the results of ``cadmus evaluate loss``.

    Returns the keys, programs, tokens, loss (nats), low, high: the 95% bootstrap interval over programs, and
    floor, the best possible loss, null where it is not known for all.
    """

    def mean(part: pl.DataFrame) -> Iterator[tuple[Any, ...]]:
        tokens = part["tokens"].to_numpy()
        # Weighted, as the mean of means would favor the tokens of short completions.
        total = part["loss"].to_numpy() * tokens
        low, high = np.quantile(resampled(total[:, None], tokens), [0.025, 0.975])
        n = int(tokens.sum())
        floor = None if part["floor"].has_nulls() else float(part["floor"].to_numpy() @ tokens) / n
        yield len(part), n, float(total.sum()) / n, float(low), float(high), floor

    counts = {"programs": pl.Int64, "tokens": pl.Int64}
    return by_group(losses, keys, counts, ("loss", "low", "high", "floor"), mean)


def accuracy_at_k(samples: pl.DataFrame) -> pl.DataFrame:
    """Return pass@k of each question and policy by each metric, with clustered bootstrap intervals.

    The columns are question, policy, metric, k, programs, correct (their expected number), accuracy, low,
    high; questions and policies are in the order of the results. Metrics are :data:`COUNTS` and, the same for
    all k, ``greedy_solved`` and the :data:`CEILING`, if it is below 1. A metric is absent where it is not
    defined.
    """

    def accuracies(part: pl.DataFrame) -> Iterator[tuple[Any, ...]]:
        probabilities = _by_program(part)
        named = {f"{metric}@{k}": column for (metric, k), column in probabilities.items()}
        bounds = bootstrap(*by_cluster(part.with_columns(**named), list(named)))
        for ((metric, k), column), *interval in zip(probabilities.items(), *bounds, strict=True):
            hits = float(column.sum())
            yield metric, k, len(part), hits, hits / len(part), *map(float, interval)

    columns = {"metric": pl.String, "k": pl.Int64, "programs": pl.Int64}
    fractions = ("correct", "accuracy", "low", "high")
    return by_group(samples, ("question", "policy"), columns, fractions, accuracies)


def _by_program(part: pl.DataFrame) -> dict[tuple[str, int], np.ndarray]:
    """Return the probability of each program to be right, by metric and k: float64, shape (programs,)."""
    samples = part["samples"].to_numpy()
    ks = budgets(int(samples.min()))  # pass@k needs k samples of every program
    probabilities = {
        metric: pass_at_k(samples, part[metric].to_numpy(), ks[-1])
        for metric in COUNTS
        if not part[metric].has_nulls()
    }
    for metric in ("greedy_solved", CEILING):
        if not part[metric].has_nulls() and not (metric == CEILING and part[metric].min() == 1):
            column = part[metric].to_numpy().astype(np.float64)
            probabilities[metric] = np.repeat(column[:, None], ks[-1], axis=1)
    return {(metric, k): at_k[:, k - 1] for metric, at_k in probabilities.items() for k in ks}


def pass_at_k(samples: np.ndarray, right: np.ndarray, most: int) -> np.ndarray:
    """Return the unbiased estimate of pass@k for each program and k = 1, ..., ``most``.

    It is 1 - C(n - c, k) / C(n, k) for n samples, c of them right, both int64 of shape (programs,): float64,
    shape (programs, most).
    """
    if (samples < most).any():
        raise ValueError(f"pass@{most} needs at least {most} samples, got {samples.min()}")
    if ((right < 0) | (right > samples)).any():
        raise ValueError("right samples must be between 0 and all samples")
    taken = np.arange(most)
    # A product of factors of at most 1; the binomial coefficients would overflow.
    factors = np.maximum((samples - right)[:, None] - taken, 0) / (samples[:, None] - taken)
    return 1 - np.cumprod(factors, axis=1)


def compared(first: pl.DataFrame, second: pl.DataFrame, metric: str = "solved") -> pl.DataFrame:
    """Compare two models that completed the same programs, question by question.

    Returns question, programs, first, second (accuracies), difference (second minus first), low, high: the
    95% bootstrap interval over the things asked about, with the same resamples for both.
    """
    asked = ["question", "program", "prompt_length", "subject"]
    pair = [results.filter(policy=MODEL).select(*asked, metric) for results in (first, second)]
    if not pair[0].select(asked).equals(pair[1].select(asked)):
        raise InputError(
            "are of different programs; compare results of one dataset, split and number of programs"
        )
    both = pair[0].with_columns(pair[1][metric].alias("second"))

    def difference(graded: pl.DataFrame) -> Iterator[tuple[Any, ...]]:
        correct, programs = by_cluster(graded, ["second", metric])
        one, other = graded[metric].mean(), graded["second"].mean()
        yield len(graded), one, other, other - one, *gap_interval(correct, programs)  # type: ignore[operator]

    columns = ("first", "second", "difference", "low", "high")
    return by_group(both, ("question",), {"programs": pl.Int64}, columns, difference)


def best_baseline(accuracies: pl.DataFrame, metric: str = "solved") -> pl.DataFrame:
    """Return the rows of the baseline with the highest accuracy over all rows: none without baselines.

    ``accuracies`` are those of one question from :func:`accuracy_by`, null for absent baselines.
    """
    present = pl.col("accuracy").is_not_null()
    baselines = accuracies.filter(pl.col("policy") != "model", present, metric=metric)
    accuracy = (pl.col("correct").sum() / pl.col("programs").sum()).over("policy")
    best = baselines.filter(accuracy == accuracy.max())
    return best.filter(pl.col("policy") == pl.col("policy").first())


def by_group(
    frame: pl.DataFrame,
    keys: tuple[str, ...],
    columns: dict[str, Any],
    fractions: tuple[str, ...],
    measure: Callable[[pl.DataFrame], Iterable[tuple[Any, ...]]],
) -> pl.DataFrame:
    """Return rows of each group: the keys, then ``columns`` and ``fractions`` (float64) from ``measure``."""
    groups = frame.group_by(keys, maintain_order=True) if keys else [((), frame)]
    rows = [(*group, *row) for group, part in groups for row in measure(part)]
    schema = {key: frame.schema[key] for key in keys} | columns | dict.fromkeys(fractions, pl.Float64)
    return pl.DataFrame(rows, schema, orient="row")


def by_cluster(graded: pl.DataFrame, columns: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the arguments of a bootstrap of truth values: a row per program, clustered by ``subject``."""
    _, cluster = np.unique(graded["subject"].to_numpy().astype(str), return_inverse=True)
    programs = np.bincount(cluster)
    correct = np.zeros((len(programs), len(columns)))
    # Not `correct[cluster] +=`, which counts one program of each cluster.
    np.add.at(correct, cluster, graded.select(columns).to_numpy().astype(np.float64))
    return correct, programs
