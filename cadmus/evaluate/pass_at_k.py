"""pass@k: the probability that at least one of k sampled completions is right (Chen et al. 2021)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from cadmus.config import Dataset
from cadmus.config.evaluation import budgets
from cadmus.dataset.manifest import stream_split
from cadmus.evaluate.grading import Policy, Task, grade
from cadmus.evaluate.intervals import bootstrap
from cadmus.evaluate.results import by_cluster, by_group
from cadmus.programs import Programs
from cadmus.tools import generator

COUNTS = ("solved", "verified", "fits")
"""Metrics that :func:`grade_samples` counts."""
BASELINE = "training_completion"
"""Name of the baseline, see :func:`training_completions`."""
_DRAWN_FROM = 100_000
"""Maximum number of training programs from which the baseline draws."""


def pass_at_k(samples: np.ndarray, right: np.ndarray, most: int) -> np.ndarray:
    """Return the unbiased estimate of pass@k for each program and k = 1, ..., ``most``.

    It is 1 - C(n - c, k) / C(n, k) for n samples, c of them right, both int64 of shape (programs,): float64,
    shape (programs, most).
    """
    if (samples < most).any():
        raise ValueError(f"pass@{most} needs at least {most} samples, got {samples.min()}")
    if ((right < 0) | (right > samples)).any():
        raise ValueError("right samples must be between 0 and all samples")
    drawn = np.arange(most)
    # A product of factors of at most 1; the binomial coefficients would overflow.
    factors = np.maximum((samples - right)[:, None] - drawn, 0) / (samples[:, None] - drawn)
    return 1 - np.cumprod(factors, axis=1)


def grade_samples(
    tasks: list[Task], policy: Policy, name: str, dataset: Dataset, samples: int
) -> pl.DataFrame:
    """Sample completions of each program, grade them and count.

    The policy samples one completion per prompt, and gets each prompt ``samples`` times in a row.

    Returns:
        One row per program: the columns of :func:`cadmus.evaluate.grading.grade` from policy to asked;
        samples; how many of them are solved, verified and fits (null where it is not defined);
        distinct_solved, different completions among the solved ones; and mean_length of the completions, in
        instructions without the end.
    """
    repeated = [
        task._replace(
            programs=task.programs.take(np.repeat(np.arange(len(task.programs)), samples)),
            prompt_length=np.repeat(task.prompt_length, samples),
        )
        for task in tasks
    ]
    graded = grade(repeated, policy, name, dataset)
    identity = ("policy", "template", "question", "program", "prompt_length", "asked")
    defined = pl.col("fits").is_not_null().all()
    counted = graded.group_by(pl.int_range(pl.len()) // samples, maintain_order=True).agg(
        pl.col(identity).first(),
        pl.len().cast(pl.Int64).alias("samples"),
        pl.col("solved", "verified").sum(),
        pl.when(defined).then(pl.col("fits").sum()).alias("fits"),
        pl.col("completion").filter("solved").n_unique().alias("distinct_solved"),
        pl.col("completion").str.len_chars().mean().alias("mean_length"),
    )
    return counted.drop(counted.columns[0])


def training_completions(directory: Path, tasks: list[Task], seed: int) -> Policy:
    """Return the baseline: a policy that draws the completion of a training program of the same question.

    Programs are drawn from the first shard of each template.
    """
    found: dict[str, Programs] = {}
    for template in dict.fromkeys(task.question.template for task in tasks):
        shard = next(stream_split(directory, "train", [template]))
        shard = shard.take(np.arange(min(len(shard), _DRAWN_FROM)))
        for task in tasks:
            if task.question.template == template:
                rows, prompt_length = task.question.cut(shard)
                # Of a few random programs, none may have a prompt that is not true yet.
                rest = shard.programs.take(rows).suffixes(prompt_length)
                found[task.name] = rest if len(rest) else Programs.from_strings([""])

    def complete(question: str, prompts: Programs) -> tuple[Programs, np.ndarray]:
        drawn = generator(seed, BASELINE, question).integers(len(found[question]), size=len(prompts))
        return found[question].take(drawn), np.ones(len(prompts), np.bool_)

    return complete


def accuracy_at_k(samples: pl.DataFrame) -> pl.DataFrame:
    """Return pass@k of each question and policy by each metric, with clustered bootstrap intervals.

    Returns:
        question, policy, metric, k, programs, correct (their expected number), accuracy, low, high; questions
        and policies in the order of the results. Metrics are :data:`COUNTS`; ``first_verified``, the first
        verified one of k samples exists and is solved; and ``greedy_solved``, the same for all k. A metric is
        absent where it is not defined.
    """

    def accuracies(part: pl.DataFrame) -> Iterator[tuple[Any, ...]]:
        columns = _by_program(part)
        named = {f"{metric}@{k}": column for (metric, k), column in columns.items()}
        correct, programs = by_cluster(part.with_columns(**named), list(named))
        for ((metric, k), column), *interval in zip(
            columns.items(), *bootstrap(correct, programs), strict=True
        ):
            hits = float(column.sum())
            yield metric, k, len(part), hits, hits / len(part), *map(float, interval)

    return by_group(
        samples,
        ("question", "policy"),
        {"metric": pl.String, "k": pl.Int64, "programs": pl.Int64},
        ("correct", "accuracy", "low", "high"),
        accuracies,
    )


def _by_program(part: pl.DataFrame) -> dict[tuple[str, int], np.ndarray]:
    """Return the probability of each program to be right, by metric and k: float64, shape (programs,)."""
    samples = part["samples"].to_numpy()
    ks = budgets(int(samples.min()))
    found = {
        metric: pass_at_k(samples, part[metric].to_numpy(), ks[-1])
        for metric in COUNTS
        if not part[metric].has_nulls()
    }
    # The first verified one of k samples is any of the verified ones, each with the same probability.
    share = part["solved"].to_numpy() / np.maximum(part["verified"].to_numpy(), 1)
    found["first_verified"] = found["verified"] * share[:, None]
    if not part["greedy_solved"].has_nulls():
        greedy = part["greedy_solved"].to_numpy().astype(np.float64)
        found["greedy_solved"] = np.repeat(greedy[:, None], ks[-1], axis=1)
    return {(metric, k): at_k[:, k - 1] for metric, at_k in found.items() for k in ks}
