"""A reward of one's own: what the function gets, what it returns, and its errors in one line."""

import re

import numpy as np
import pytest

from cadmus.config import Dataset
from cadmus.errors import InputError, RankLocalError
from cadmus.evaluate.criteria import Completed
from cadmus.programs import Programs
from cadmus.train.objectives.reward import OwnReward
from tests.checkout import ROOT
from tests.recipes import blocks
from tests.train.test_reinforcement import objective_of, weights_by_program, written

GOOD = """
def by_length(tasks, completions):
    assert [task.prompt + task.reference for task in tasks] == ["34+7=", "12+9<"]
    assert {(task.question, task.split) for task in tasks} == {("basic_math", "train")}
    assert completions == ["=.", "<!"]
    return [len(text) / 2 for text in completions]
"""
COMPLETED = Completed(
    Programs.from_strings(["34+7=", "12+9<"]),
    np.array([4, 4]),
    Programs.from_strings(["=", "<!"]),
    np.array([True, False]),
    Dataset(),
)


def function(tmp_path, text: str, name: str = "by_length") -> str:
    (tmp_path / "rewards.py").write_text(text)
    return f"{tmp_path / 'rewards.py'}:{name}"


def test_a_function_gets_tasks_and_completions(tmp_path):
    rewards = OwnReward(function(tmp_path, GOOD))("basic_math", COMPLETED)
    assert rewards.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def by_length(tasks): pass", "TypeError: by_length() takes 1 positional argument but 2 were given"),
        ("def by_length(t, c): raise KeyError('x')", "KeyError: 'x'"),
        ("def by_length(t, c): return [1.0]", "must return 2 numbers, one for each completion, got 1"),
        ("def by_length(t, c): return None", "TypeError: 'NoneType' object is not iterable"),
        ("def by_length(t, c): return ['a', 'b']", "ValueError: could not convert string to float: 'a'"),
        ("def by_length(t, c): return [1, float('nan')]", "must return finite numbers, got nan for '12+9<!'"),
    ],
)
def test_a_bad_reward_is_one_line(tmp_path, text, message):
    place = function(tmp_path, text)
    with pytest.raises(RankLocalError, match=f"^{re.escape(f'{place}: {message}')}"):
        OwnReward(place)("basic_math", COMPLETED)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def by_length(:", "SyntaxError: invalid syntax"),
        ("import nothing_like_it", "ModuleNotFoundError: No module named 'nothing_like_it'"),
        ("by_length = 1", "has no function by_length"),
    ],
)
def test_a_file_without_the_function_is_one_line(tmp_path, text, message):
    with pytest.raises(InputError, match=re.escape(message)):
        OwnReward(function(tmp_path, text))
    with pytest.raises(InputError, match=r"none\.py:f: no file none\.py; give FILE\.py:FUNCTION"):
        OwnReward("none.py:f")


def test_a_mistake_shows_before_the_first_step(tmp_path):
    place = function(tmp_path, "def by_length(t, c): return [float('inf')]")
    with pytest.raises(InputError, match=r"^train\.reinforcement\.function: .*must return finite numbers"):
        objective_of(function=place)


def test_the_example_of_the_guide_rewards_short_answers(tmp_path, monkeypatch):
    code = blocks(ROOT / "docs/training.md", "### A reward of your own")[0]
    place = function(tmp_path, code, "short")
    texts = ["55*2+=", "39*=", "39*=", "9>"]
    rollout, _ = written(monkeypatch, "941-*t3*3-=", 5, "equality", texts, function=place)
    found = {text.removeprefix("941-*"): weights for text, weights in weights_by_program(rollout).items()}
    # With the end: 7, 5, 5 and 3 tokens.
    rewards = [1 - 0.35, 1 - 0.25, 1 - 0.25, -0.15]
    mean = sum(rewards) / 4
    assert found == {
        "55*2+=": pytest.approx([rewards[0] - mean] * 7),
        "39*=": pytest.approx([2 * (rewards[1] - mean)] * 5),
        "9>": pytest.approx([rewards[3] - mean] * 3),
    }
