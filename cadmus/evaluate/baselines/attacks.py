"""Policies that try to solve questions without understanding them.

A policy is a text in which ``{i}`` and ``{i:j}`` are instructions of the prompt, indexed as in Python;
the rest is constant: ``{0:5}0+=`` copies an expression and adds 0. ``attacks.tsv`` lists the policies that
people and the search of ``python -m dev.attack`` found. One of the kind *fails* answers nothing and must
never solve its question. One of the kind *guesses* is right by chance, or shows how little its question asks.
The best of them are baselines.
"""

import re
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np

from cadmus.config import Dataset
from cadmus.evaluate.grading import TaskBatch
from cadmus.programs import Programs, concat, join
from cadmus.vm.compiled import are_true

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


def apply(policy: str, prompts: Programs) -> Programs:
    """Return the completion of each prompt.

    >>> apply("{0:3}0+{3:}=", Programs.from_strings(["29x6n", "34+"])).to_strings()
    ['29x0+6n=', '34+0+=']
    """
    pieces: list[bytes | Programs] = [prompts.prefixes(np.zeros(len(prompts), np.int64))]
    at = 0
    for match in _SLICE.finditer(policy):
        pieces += [policy[at : match.start()].encode(), _part(prompts, *match.groups())]
        at = match.end()
    return join(*pieces, policy[at:].encode())


def _part(prompts: Programs, index: str | None, start: str | None, stop: str | None) -> Programs:
    """Return the instructions of each prompt at an index or in a slice; negative ones count from the end."""
    lengths = prompts.lengths
    first = int(index or start or 0)
    last = first + 1 if index else int(stop) if stop else lengths
    # Of {-1}, the end 0 would mean the start.
    ends_at_end = index is not None and last == 0
    bounds = [np.clip(np.where(each < 0, lengths + each, each), 0, lengths) for each in (first, last)]
    begin, end = bounds[0], lengths if ends_at_end else bounds[1]
    return prompts.suffixes(begin).prefixes(np.maximum(end - begin, 0))


def solved_by(policies: Sequence[str], task: TaskBatch, dataset: Dataset) -> np.ndarray:
    """Return which programs each policy solves: bool, shape (policies, programs).

    No completion is longer than a program may be.
    """
    prompts, form = task.prompts, task.question.form
    kept, texts = [np.empty((2, 0), np.int64)], [Programs.from_strings([])]
    for number, policy in enumerate(policies):
        completions = apply(policy, prompts)
        rows = np.flatnonzero(completions.lengths + prompts.lengths <= dataset.max_length)
        # Truth is a cheap test that most completions fail.
        rows = rows[are_true(join(prompts.take(rows), completions.take(rows)))]
        written = completions.take(rows)
        fits = np.array([form.fullmatch(text) is not None for text in written.to_strings()], np.bool_)
        kept.append(np.stack([np.full(fits.sum(), number), rows[fits]]))
        texts.append(written.take(fits))
    of_policy, of_program = np.concatenate(kept, axis=1)
    solved = np.zeros((len(policies), len(prompts)), np.bool_)
    solved[of_policy, of_program] = task.question.solves(task.completed(of_program, concat(texts), dataset))
    return solved


def best(policies: Iterable[str], task: TaskBatch, dataset: Dataset) -> str:
    """Return the policy that solves most programs, in hindsight; the first of equals."""
    listed = list(dict.fromkeys(policies))
    return listed[int(solved_by(listed, task, dataset).sum(1).argmax())]
