"""The search finds policies that are right by chance."""

import pytest

from cadmus.config import Dataset
from cadmus.evaluate.baselines.attacks import attacks, solved_by
from dev import attack
from tests.commands import python

DATASET = Dataset()


@pytest.mark.parametrize(("question", "known"), [("less_greater", "<"), ("equality", "{0}{1}{4}=")])
def test_the_search_finds_a_policy_that_solves_as_much_as_a_known_one(monkeypatch, question, known) -> None:
    monkeypatch.setattr(attack, "attacks", lambda: [line for line in attacks() if line.policy != known])
    (task,) = (task for task in attack.tasks_for(question, 300) if task.name == question)
    shares = solved_by([attack.best_policy(task, DATASET, 1), known], task, DATASET).mean(1)
    assert shares[0] >= shares[1] > 0


def test_the_best_policies_of_a_question_are_printed() -> None:
    done = python("-m", "dev.attack", "equality_comparator", "--programs=60", "--rounds=0")
    header, row = done.stdout.splitlines()
    assert header.split() == ["question", "tested", "found", "solved", "listed", "solved"]
    assert row.split() == ["equality_comparator", "60", *["=", "100.0%"] * 2]
