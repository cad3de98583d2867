"""Grading of completions by execution (the paper's Table 3).

Each program is completed from where its question cuts it (:mod:`cadmus.evaluate.questions`);
``docs/grading.md`` defines the metrics of a completion. No completion raises an error, however bad.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import polars as pl

from cadmus.config import TEMPLATES, Dataset
from cadmus.evaluate.criteria import Completed
from cadmus.evaluate.questions import Question, questions_of, subjects_of
from cadmus.evaluate.statistics.results import MODEL
from cadmus.programs import Programs, Samples
from cadmus.tools import progress

Policy = Callable[[str, Programs], tuple[Programs, np.ndarray]]
"""Completes prompts of a question: returns completions without the end, and whether each ended."""


class TaskBatch(NamedTuple):
    """Programs that are asked the question called ``name``, and their prompt lengths: int64, shape (n,)."""

    name: str
    question: Question
    programs: Programs
    prompt_length: np.ndarray

    @property
    def prompts(self) -> Programs:
        return self.programs.prefixes(self.prompt_length)

    def completed(self, rows: np.ndarray, completions: Programs, dataset: Dataset) -> Completed:
        """Return some of the programs with other completions, which end."""
        ended = np.ones(len(rows), np.bool_)
        return Completed(self.programs.take(rows), self.prompt_length[rows], completions, ended, dataset)


def tasks_of(samples: Samples, limit: int | None = None) -> list[TaskBatch]:
    """Return the questions that programs are asked: of each template, the first ``limit``, or all."""
    tasks = []
    templates = np.asarray(samples.template)
    for template in TEMPLATES:
        # The limit is one of programs: the questions of a template are asked about the same ones.
        chosen = samples.take(np.flatnonzero(templates == template)[:limit])
        for name, question in questions_of(template).items():
            rows, prompt_length = question.cut(chosen)
            if len(rows):
                tasks.append(TaskBatch(name, question, chosen.programs.take(rows), prompt_length))
    return tasks


def grade(tasks: list[TaskBatch], policy: Policy, name: str, dataset: Dataset) -> pl.DataFrame:
    """Complete programs with the policy called ``name`` and grade the completions.

    Induction draws fresh inputs from ``dataset``, the section of the config. Returns a row per program, with
    the columns of ``docs/columns.md``.
    """
    graded = []
    # Baselines share a bar, that of grade_baselines.
    for task in progress(f"complete, {name}", tasks) if name == MODEL else tasks:
        completions, ended = policy(task.name, task.prompts)
        completed = Completed(task.programs, task.prompt_length, completions, ended, dataset)
        graded.append(
            pl.DataFrame(
                {
                    "policy": name,
                    "template": task.question.template,
                    "question": task.name,
                    "program": task.programs.to_strings(),
                    "prompt_length": task.prompt_length,
                    "subject": subjects_of(task.question, task.programs, task.prompt_length),
                    "completion": completed.texts,
                    "ended": ended,
                    "solved": task.question.solves(completed),
                    "fits": None if task.question.fits is None else task.question.fits(completed),
                    "exact": completed.exact,
                    "next_token": completed.next_token,
                    "verified": completed.verified,
                },
                # A column of nulls has a type of its own, which concat refuses.
                schema_overrides={"fits": pl.Boolean},
            )
        )
    return pl.concat(graded)


def grade_samples(
    tasks: list[TaskBatch], policy: Policy, name: str, dataset: Dataset, samples: int
) -> pl.DataFrame:
    """Sample completions of each program, grade them and count.

    The policy samples one completion per prompt, and gets each prompt ``samples`` times in a row. Returns a
    row per program, with the columns of ``docs/columns.md``.
    """
    repeated = [
        task._replace(
            programs=task.programs.take(np.repeat(np.arange(len(task.programs)), samples)),
            prompt_length=np.repeat(task.prompt_length, samples),
        )
        for task in tasks
    ]
    graded = grade(repeated, policy, name, dataset)
    identity = ("policy", "template", "question", "program", "prompt_length", "subject")
    defined = pl.col("fits").is_not_null().all()
    # By position: with `repeats`, a program may be in a split twice.
    counted = graded.group_by(pl.int_range(pl.len()) // samples, maintain_order=True).agg(
        pl.col(identity).first(),
        pl.len().cast(pl.Int64).alias("samples"),
        pl.col("solved", "verified").sum(),
        pl.when(defined).then(pl.col("fits").sum()).alias("fits"),
    )
    return counted.drop(counted.columns[0])
