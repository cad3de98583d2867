"""The benchmark of tasks and verdicts."""

import json

from cadmus.bench import tasks
from cadmus.evaluate.questions import QUESTIONS
from tests.bench.conftest import invoke, published


def test_it_measures_each_question_and_split(monkeypatch) -> None:
    monkeypatch.setattr(tasks, "REPEATS", 1)
    monkeypatch.setattr(tasks, "TASKS", 20)
    measured = json.loads(invoke("tasks", "--json"))
    assert set(measured) == published("tasks")
    for question in QUESTIONS:
        for split in tasks.SPLITS:
            assert measured[f"{question} {split}_tasks"] > 0
            assert measured[f"{question} {split}_verify"] > 0
