"""Completions of test programs, graded by execution (the paper's Table 3)."""

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from cadmus.columns import COMPLETION, COUNT, FLAG, FRACTION, NAME, POSITIVE, PROGRAM, TEXT, Table
from cadmus.config import Dataset
from cadmus.errors import InputError
from cadmus.evaluate.statistics.results import CEILING, accuracy_by, measured
from cadmus.experiments.experiment import Experiment, Figure, Subject, Summary
from cadmus.records import Origin
from cadmus.store import read_parquet

if TYPE_CHECKING:
    from cadmus.evaluate.grading import TaskBatch

BASELINES = "baselines"
"""Kind of the files with what :func:`measure_baselines` returns."""


def measure(subject: Subject) -> pl.DataFrame:
    """Complete test programs and grade them by execution.

    The baselines are graded as well. The best possible accuracy is computed; it is below 100% only for
    induction, as examples leave several functions open.

    Table 3, its figure and that of memory are drawn from the results.
    """
    tasks = ask(subject, subject.config.evaluate.completions.programs)
    baselines = measure_baselines(subject) if subject.baselines is None else read_baselines(subject)
    # Each has all programs, in the order in which they are asked.
    known = baselines.filter(pl.col("policy") == baselines["policy"][0])
    graded = grade_model(subject.model(), tasks, subject.config.dataset)
    asked = ("question", "program", "prompt_length")
    if not graded.select(asked).equals(known.select(asked)):
        raise InputError(f"{subject.baselines}: of other programs than are asked here; measure them anew")
    of_dataset = known.select(CEILING, "seen", "training_programs")
    others = baselines.with_columns(pl.lit(None, pl.Float64).alias(CEILING))
    return pl.concat([graded.hstack(of_dataset), others], how="diagonal")


def read_baselines(subject: Subject) -> pl.DataFrame:
    """Read what :func:`measure_baselines` returned for the dataset of a subject."""
    from cadmus.dataset.manifest import read_manifest

    assert subject.baselines is not None
    baselines, origin = read_parquet(subject.baselines, BASELINES, Table(EXPERIMENT.columns), Origin)
    if origin.data_digest != read_manifest(subject.dataset_directory()).digest:
        raise InputError(f"{subject.baselines}: of another dataset than {subject.dataset}; measure them anew")
    return baselines


def measure_baselines(subject: Subject) -> pl.DataFrame:
    """Return all of the results that depends on the dataset alone.

    The baselines are graded; ``ceiling`` is known of them as well.
    """
    from cadmus.dataset.manifest import read_manifest
    from cadmus.evaluate.baselines.policies import Learned, grade_baselines

    dataset = subject.config.dataset
    tasks = ask(subject, subject.config.evaluate.completions.programs)
    splits = read_manifest(subject.dataset_directory()).splits
    trained = {template: counts["programs"] for template, counts in splits["train"].items()}
    ceiling = best_possible(tasks, dataset, subject.config.evaluate.split)
    learned = Learned(subject.dataset_directory(), tasks)
    graded = grade_baselines(tasks, learned, dataset)
    things = graded.select("question", "subject").iter_rows()
    return graded.with_columns(
        pl.Series("seen", [thing in learned.seen[question] for question, thing in things]),
        pl.col("template").replace_strict(trained, return_dtype=pl.Int64).alias("training_programs"),
        # The first baseline answers all questions, so its rows hold the ceilings.
        ceiling.extend_constant(None, len(graded) - len(ceiling)),
    )


def ask(subject: Subject, most: int) -> "list[TaskBatch]":
    """Return the questions that at most ``most`` test programs per template are asked."""
    from cadmus.evaluate.grading import tasks_of

    tasks = tasks_of(subject.test_programs(), most)
    if not tasks:
        raise InputError(
            f"{subject.dataset}: none of its {subject.config.evaluate.split} programs can be asked a "
            "question; sample more of them, or other templates"
        )
    _check_added_questions(subject, tasks)
    return tasks


def _check_added_questions(subject: Subject, tasks: "list[TaskBatch]") -> None:
    """Check that programs of added templates solve their questions; tests do so for those of Cadmus."""
    from cadmus.evaluate.criteria import Completed
    from cadmus.evaluate.questions import QUESTIONS

    for task in (task for task in tasks if task.name not in QUESTIONS):
        own = Completed.own(task.programs, task.prompt_length, subject.config.dataset)
        unsolved = np.flatnonzero(~task.question.solves(own))
        if len(unsolved):
            (program,) = task.programs.take(unsolved[:1]).to_strings()
            raise InputError(
                f"{subject.dataset}: {task.question.template}: its own completion does not solve "
                f"{program!r}; give the template a question in cadmus/evaluate/questions.py"
            )


def grade_model(model: Any, tasks: "list[TaskBatch]", dataset: Dataset) -> pl.DataFrame:
    """Complete programs greedily and grade them, see :func:`cadmus.evaluate.grading.grade`."""
    from cadmus.evaluate.grading import grade
    from cadmus.evaluate.statistics.results import MODEL

    return grade(tasks, lambda _, prompts: model.complete(prompts, dataset.max_length), MODEL, dataset)


def best_possible(tasks: "list[TaskBatch]", dataset: Dataset, split: str) -> pl.Series:
    """Return the probability that the best possible answer to each program is solved, in order."""
    ceilings = [
        np.ones(len(task.programs))
        if task.question.ceiling is None
        else task.question.ceiling(task.prompts, dataset, split)
        for task in tasks
    ]
    return pl.Series(CEILING, np.concatenate(ceilings))


def summarize(results: pl.DataFrame) -> Summary:
    """Return the accuracy on each question, with the best possible one and that of the best baseline."""
    from cadmus.figures.table3_accuracy import table

    columns = ("Sub-problem", "Tested", "Solved", "Best possible", "Best baseline")
    return Summary("test programs solved, with 95% intervals", table(results).select(columns))


ASKED = {
    "policy": NAME,
    "template": NAME,
    "question": NAME,
    "program": PROGRAM,
    "prompt_length": POSITIVE,
    "subject": TEXT,
}
"""Columns that say who was asked what."""
_OF_MODEL = pl.col("policy") == "model"
ASKED_RULES = {
    "prompt_length: must be at most the length of program": (
        pl.col("prompt_length") <= pl.col("program").str.len_chars()
    ),
    "policy: must be model in some row of each question": _OF_MODEL.any().over("question"),
    "ceiling: must be known of the model alone": pl.col(CEILING).is_not_null() == _OF_MODEL,
}

EXPERIMENT = Experiment(
    measure=measure,
    seconds=40,
    columns={
        **ASKED,
        "completion": COMPLETION,
        "ended": FLAG,
        "solved": FLAG,
        "fits": FLAG.or_null(),
        "exact": FLAG,
        "next_token": FLAG,
        "verified": FLAG,
        CEILING: FRACTION.or_null(),
        "seen": FLAG,
        "training_programs": COUNT,
    },
    rules={
        **ASKED_RULES,
        "fits: must be known of complete_algorithm": (
            pl.col("fits").is_not_null() | (pl.col("question") != "complete_algorithm")
        ),
    },
    metrics=lambda results: measured(accuracy_by(results, "question")),
    summary=summarize,
    dataset=True,
    baselines=measure_baselines,
    figures=(
        Figure(
            "table3_accuracy",
            "Accuracy on each sub-problem, with 95% bootstrap intervals, the best possible accuracy, the "
            "best baseline's and the paper's (its Table 3). The gap is the accuracy minus that of the best "
            "baseline, in percentage points, and marked as below if its interval is below 0.",
            "table",
        ),
        Figure(
            "accuracy_by_question",
            "Accuracy on each sub-problem, with 95% bootstrap intervals. The bar reaches from the best "
            "baseline that executes nothing to the best possible accuracy.",
        ),
        Figure(
            "memory",
            "Accuracy on test programs whose expression pair, function or sequence a training program asks "
            "about too, and on the others, with 95% bootstrap intervals.",
        ),
    ),
)
