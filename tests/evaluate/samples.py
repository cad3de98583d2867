"""Test programs and graded completions by hand."""

from collections.abc import Sequence
from functools import cache

import numpy as np
import polars as pl

from cadmus.config import TEMPLATE_OF, Dataset
from cadmus.dataset.sampler import sample
from cadmus.evaluate.grading import TaskBatch, tasks_of
from cadmus.evaluate.questions import QUESTIONS
from cadmus.evaluate.statistics.results import METRICS
from cadmus.programs import Programs, Samples
from cadmus.vm.verifying import verified

# A hash decides the split; 0.49 samples ten times faster than 0.05.
DATASET = Dataset(eval_fraction=0.49)


def is_verified(prompt: str, completion: str, ended: bool = True) -> bool:
    texts = (Programs.from_strings([text]) for text in (prompt, completion))
    return bool(verified(*texts, np.array([ended]))[0])


def samples_of(template: str, *programs: str, prompt_length: int | list[int]) -> Samples:
    lengths = np.broadcast_to(np.array(prompt_length), len(programs))
    templates = np.full(len(programs), template, object)
    return Samples(Programs.from_strings(programs), lengths, template=templates)


def completions_of(
    question: str, policy: str, solved: Sequence[bool] | np.ndarray, **columns: object
) -> pl.DataFrame:
    """Return completions as graded: of one program, but asked about different things; with some columns."""
    n = len(solved)
    right = pl.Series(solved, dtype=pl.Boolean)
    asked = [str(k) for k in range(n)]
    facts = {"program": "34+7=", "prompt_length": 4, "subject": asked, "completion": "=", "ended": True}
    facts |= {"seen": False, "training_programs": 800, **dict.fromkeys(METRICS, right)}
    fits = right if question == "complete_algorithm" else pl.Series([None] * n, dtype=pl.Boolean)
    ceiling = pl.Series([1.0 if policy == "model" else None] * n, dtype=pl.Float64)
    named = {"policy": policy, "template": TEMPLATE_OF.get(question, question), "question": question}
    return pl.DataFrame({**named, **facts, "fits": fits, "ceiling": ceiling, **columns})


@cache
def tasks_of_template(template: str, count: int) -> list[TaskBatch]:
    """Return the tasks of sampled test programs."""
    samples = sample(DATASET, 1, template, "test", 0, count)
    assert len(samples) == count
    samples.template = np.full(count, template, object)
    return tasks_of(samples)


def task_of(question: str, count: int) -> TaskBatch:
    tasks = tasks_of_template(QUESTIONS[question].template, count)
    return next(task for task in tasks if task.name == question)
