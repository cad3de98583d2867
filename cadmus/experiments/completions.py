"""Completions of test programs, graded by execution (the paper's Table 3)."""

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from cadmus.config import Config, Positive, Section
from cadmus.experiments.experiment import Cost, Experiment, Figure, Subject

if TYPE_CHECKING:
    import polars as pl


class Settings(Section):
    """Completions of test programs."""

    programs: Positive = 2_000
    """maximum number of programs per template"""


def measure(subject: Subject) -> "pl.DataFrame":
    """Complete test programs and grade them by execution.

    Table 3, accuracy by length and by examples, and the page of failures are made from them.
    """
    import polars as pl

    from cadmus.evaluate.grading import complete
    from cadmus.evaluate.results import SOLVE

    table, model = subject.test_programs(), subject.model()
    completions = complete(
        model, table, subject.config.dataset.max_length, subject.config.evaluate.completions.programs
    )
    trained = subject.training_programs()
    trained[SOLVE] = trained.get("equality", 0)
    return completions.with_columns(
        pl.col("template").replace_strict(trained, return_dtype=pl.Int64).alias("training_programs")
    )


def summary(results: "pl.DataFrame") -> "pl.DataFrame":
    """Return the accuracy of each template, by every metric."""
    from cadmus.evaluate.results import accuracy_by

    return accuracy_by(results, "template")


def cost(config: Config, lengths: Mapping[str, tuple[float, float]]) -> Cost:
    """Return the compute of a run."""
    return Cost(completed_tokens(config, lengths, config.evaluate.completions.programs))


def completed_tokens(config: Config, lengths: Mapping[str, tuple[float, float]], most: int) -> float:
    """Count the tokens that completing at most ``most`` programs per template takes.

    These are the tokens of the programs, and those of the prompts again for the next token.
    """
    from cadmus.dataset.shards import plan

    programs: Counter[str] = Counter()
    for shard in plan(config):
        if shard.split == config.evaluate.split:
            programs[shard.template] += shard.rows
    total = 0.0
    for template, count in programs.items():
        tokens, prompt_tokens = lengths[template]
        # Equality is completed from two places.
        times = 2 if template == "equality" else 1
        total += times * min(most, count) * (tokens - 1 + prompt_tokens)
    return total


EXPERIMENT = Experiment(
    measure=measure,
    columns={
        "template": str,
        "program": str,
        "prompt_length": int,
        "completion": str,
        "ended": bool,
        "uses_drop": bool,
        "verified": bool,
        "verified_equality": bool,
        "exact": bool,
        "next_token": bool,
        "training_programs": int,
    },
    settings=Settings,
    cost=cost,
    summary=summary,
    dataset=True,
    figures=(
        Figure(
            "table3_accuracy",
            "Accuracy on each sub-problem with Wilson 95% intervals, beside the paper's (its Table 3).",
            "table",
        ),
        Figure(
            "accuracy_by_length",
            "Accuracy on each sub-problem by the length of the test program, in bins of four lengths.",
        ),
        Figure(
            "accuracy_by_examples",
            "Induction: accuracy of the definition by the number of examples in the prompt. A verified "
            "definition satisfies all of them.",
        ),
        Figure("failures", "Failed completions, each with a trace of its execution.", "page"),
    ),
)
