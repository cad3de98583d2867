"""Grades of the project to compare with, and a server of the shipped model."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from cadmus import Task, tasks
from cadmus.config import Dataset
from cadmus.evaluate.grading import TaskBatch as Batch
from cadmus.evaluate.grading import grade
from cadmus.evaluate.questions import QUESTIONS
from cadmus.experiments.completions import grade_model
from cadmus.programs import Programs

POLICIES = {"ends at once": "", "less": "<", "equal": "=", "not": "!"}
"""Policies that complete every prompt with the same text."""


def asked(question: str, n: int, split: str = "test", **options: object) -> list[Task]:
    """Return the first tasks of a question."""
    return list(islice(tasks(QUESTIONS[question].template, split, question=question, **options), n))


def _batch(found: list[Task]) -> Batch:
    programs = Programs.from_strings(task.prompt + task.reference for task in found)
    name = found[0].question
    return Batch(name, QUESTIONS[name], programs, np.array([len(task.prompt) for task in found]))


def graded_constant(found: list[Task], text: str) -> list[bool]:
    """Grade a policy that completes every prompt with ``text``, as the baselines are graded."""
    completions = Programs.from_strings([text] * len(found)), np.ones(len(found), np.bool_)
    return grade([_batch(found)], lambda *_: completions, "constant", Dataset())["solved"].to_list()


def graded_model(found: list[Task]) -> list[bool]:
    """Grade the shipped model, as ``cadmus evaluate completions`` does."""
    from cadmus import Cadmus

    return grade_model(Cadmus.load(), [_batch(found)], Dataset())["solved"].to_list()


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """Address of ``integrations/serve.py`` with the shipped model, which it calls laptop."""
    process = subprocess.Popen(
        [sys.executable, Path(__file__).with_name("serve.py"), "laptop", "0"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    try:
        assert process.stdout
        found = re.search(r"http://\S+/v1", process.stdout.readline())
        assert found
        yield found[0]
    finally:
        process.terminate()
        process.wait(30)
