"""The search finds policies that are right by chance."""

import subprocess
import sys

import pytest

from cadmus.config import Dataset
from cadmus.evaluate.attacks import solved_by
from dev import attack
from tests.checkout import ROOT

DATASET = Dataset()


@pytest.mark.parametrize(
    ("question", "longest", "known"),
    [("less_greater", 1, "<"), ("apply_labels", 2, "0="), ("random", 3, "1")],
)
def test_the_best_constant_is_found(question, longest, known) -> None:
    (task,) = (task for task in attack.tasks_for(question, 300) if task.name == question)
    found = attack.best_constant(task, DATASET, longest)
    shares = solved_by([found, known], task, DATASET).mean(1)
    assert shares[0] >= shares[1] > 0


def test_copying_solves_as_much_as_the_best_constant() -> None:
    task = attack.tasks_for("equality", 300)[0]
    shares = solved_by([attack.best_copy(task, DATASET, 1), "0="], task, DATASET).mean(1)
    assert shares[0] >= shares[1]


def test_the_best_policies_of_a_question_are_printed() -> None:
    options = ["--programs=60", "--longest=1", "--rounds=0"]
    command = [sys.executable, "-m", "dev.attack", "equality_comparator", *options]
    header, row = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert header.split()[:4] == ["question", "tested", "constant", "solved"]
    assert row.split() == ["equality_comparator", "60", *["=", "100.0%"] * 3]
