"""Policies that answer nothing solve nothing."""

import numpy as np
import pytest

from cadmus.config import Dataset
from cadmus.evaluate.baselines import attacks
from cadmus.evaluate.questions import QUESTIONS
from cadmus.programs import Programs
from tests.evaluate.samples import DATASET, task_of


def test_the_list_is_well_formed() -> None:
    lines = attacks.attacks()
    assert len(lines) > 300
    assert {line.kind for line in lines} == {"fails", "guesses"}
    assert {line.question for line in lines} == {*QUESTIONS, "*"}
    assert all(line.policy.isascii() and line.why for line in lines[1:])


@pytest.mark.parametrize("question", QUESTIONS)
def test_policies_that_answer_nothing_solve_nothing(question: str) -> None:
    listed = [line for line in attacks.attacks() if line.kind == "fails"]
    policies = [line.policy for line in listed if line.question in (question, "*")]
    solved = attacks.solved_by(policies, task_of(question, 1_000), DATASET)
    assert solved.shape == (len(policies), len(task_of(question, 1_000).programs))
    assert {policies[k]: int(solved[k].sum()) for k in np.flatnonzero(solved.any(1))} == {}


LIMITS = {
    "basic_math": 0.55,
    "equality": 0.25,
    # The answer is always `=`.
    "equality_comparator": 1,
    "less_greater": 0.55,
    "subroutines": 0.6,
    "subroutines_definition": 0.3,
    "random": 0.65,
    "basic_sequences": 0.2,
    "advanced_sequences": 0.3,
    "apply_labels": 0.35,
    "complete_algorithm": 0.05,
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_no_listed_policy_solves_more_of_any_question_than_guesses_do(question: str) -> None:
    """Whichever question the policy is listed for."""
    every = list(dict.fromkeys(line.policy for line in attacks.attacks()))
    solved = attacks.solved_by(every, task_of(question, 1_000), DATASET).mean(1)
    assert solved.max() <= LIMITS[question], every[int(solved.argmax())]


def test_a_policy_copies_from_the_prompt() -> None:
    def applied(policy, *prompts):
        return attacks.apply(policy, Programs.from_strings(prompts)).to_strings()

    assert applied("0{-1}{1:3}{4:}=", "12345", "6789") == ["05235=", "0978="]
    assert applied("1=", "12", "34") == ["1=", "1="]
    assert applied("{9}{:1}{-3}{-2:0}", "12") == ["1"]
    assert applied("{-3:-1}", "1234", "5") == ["23", ""]


def test_completions_longer_than_a_program_may_be_solve_nothing() -> None:
    equality = task_of("equality", 1_000)
    short = Dataset(eval_fraction=0.49, max_length=6)
    assert not attacks.solved_by(["0="], equality, short).any()
