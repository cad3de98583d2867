"""Policies that try to solve questions without understanding them.

A policy is a text in which ``{i}`` and ``{i:j}`` are instructions of the prompt, indexed as in Python;
the rest is constant: ``{0:5}0+=`` copies an expression and adds 0. ``attacks.tsv`` lists the policies that
people and the search of ``python -m dev.attack`` found. One of the kind *fails* answers nothing and must
never solve its question. One of the kind *guesses* is right by chance, or shows how little its question asks.
The best of them are baselines.
"""

import re
from collections.abc import Iterable, Sequence
from functools import cache, partial
from importlib.resources import files
from typing import NamedTuple

import numpy as np

from cadmus.config import Dataset
from cadmus.evaluate.grading import TaskBatch
from cadmus.programs import Programs

_SLICE = re.compile(r"\{(-?\d+)\}|\{(-?\d*):(-?\d*)\}")


class Attack(NamedTuple):
    question: str
    kind: str
    policy: str
    why: str


@cache
def attacks() -> tuple[Attack, ...]:
    """Return the lines of ``attacks.tsv``."""
    text = files("cadmus.evaluate.baselines").joinpath("attacks.tsv").read_text()
    return tuple(Attack(*line.split("\t")) for line in text.splitlines()[1:])


def is_constant(policy: str) -> bool:
    """Tell whether a policy writes the same after every prompt."""
    return _SLICE.search(policy) is None


def apply(policy: str, prompts: Sequence[str]) -> list[str]:
    """Return the completion of each prompt.

    >>> apply("{0:3}0+{3:}=", ["29x6n", "34+"])
    ['29x0+6n=', '34+0+=']
    """
    return [_SLICE.sub(partial(_part, prompt), policy) for prompt in prompts]


def _part(prompt: str, match: re.Match[str]) -> str:
    index, start, stop = match.groups()
    if index is not None:
        # Of {-1}, the stop 0 would mean the start.
        start, stop = index, int(index) + 1
    return prompt[int(start) if start else None : int(stop) if stop else None]


def solved_by(policies: Sequence[str], task: TaskBatch, dataset: Dataset) -> np.ndarray:
    """Return which programs each policy solves: bool, shape (policies, programs).

    No completion is longer than a program may be.
    """
    prompts = task.prompts.to_strings()
    texts = [text for policy in policies for text in apply(policy, prompts)]
    lengths = np.fromiter(map(len, texts), np.int64, len(texts)) + np.tile(task.prompt_length, len(policies))
    # Before the execution, which takes longer.
    fits = [task.question.form.fullmatch(text) is not None for text in texts]
    solved = np.zeros(len(texts), np.bool_)
    rows = np.flatnonzero(np.array(fits, np.bool_) & (lengths <= dataset.max_length))
    completions = Programs.from_strings(texts[row] for row in rows)
    solved[rows] = task.question.solves(task.completed(rows % len(prompts), completions, dataset))
    return solved.reshape(len(policies), len(prompts))


def best(policies: Iterable[str], task: TaskBatch, dataset: Dataset) -> str:
    """Return the policy that solves most programs, in hindsight; the first of equals."""
    listed = list(dict.fromkeys(policies))
    return listed[int(solved_by(listed, task, dataset).sum(1).argmax())]
