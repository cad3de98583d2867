"""Rules that rewrite prompts without executing them."""

import numpy as np
import pytest

from cadmus.evaluate.baselines.rewriting import rules
from cadmus.evaluate.criteria import copies, is_expression
from cadmus.evaluate.questions import QUESTIONS
from cadmus.programs import Programs
from cadmus.vm.reference import run
from tests.evaluate.samples import DATASET, task_of


def solved(question: str) -> list[float]:
    task = task_of(question, 2_000)
    prompts = task.prompts.to_strings()
    texts = [Programs.from_strings(map(rule, prompts)) for rule in rules(question)]
    every = np.arange(len(prompts))
    return [float(task.question.solves(task.completed(every, each, DATASET)).mean()) for each in texts]


def test_rewritten_expressions_have_the_same_value() -> None:
    (rule,) = rules("equality")
    prompts = task_of("equality", 2_000).prompts.to_strings()
    for prompt in prompts[:500]:
        text = rule(prompt)[:-1]
        assert is_expression(text)
        assert run(text).outputs == run(prompt).outputs, (prompt, text)
        assert len(text) <= len(prompt)
    assert np.mean([copies(rule(prompt)[:-1], prompt) for prompt in prompts]) < 0.25


@pytest.mark.parametrize(
    ("question", "least", "most"),
    [("equality", 0.75, 0.88), ("subroutines_definition", 0.1, 0.4), ("random", 0.9, 1)],
)
def test_how_much_rules_solve(question: str, least: float, most: float) -> None:
    """The best of them is a baseline; a definition that copies its prompt is too long."""
    assert least <= max(solved(question)) <= most


def test_other_questions_have_no_rules() -> None:
    assert {name for name in QUESTIONS if rules(name)} == {"equality", "subroutines_definition", "random"}
