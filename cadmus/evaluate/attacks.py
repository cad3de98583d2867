"""Policies that try to solve questions without understanding them, and a search for better ones.

A policy is a text in which ``{i}`` and ``{i:j}`` are instructions of the prompt, indexed as in Python;
the rest is constant: ``{0:5}0+=`` copies an expression and adds 0. ``attacks.tsv`` lists the policies that
people and the search found. One of the kind *fails* answers nothing and must never solve its question. One of
the kind *guesses* is right by chance, or shows how little its question asks. The best of them are baselines.
"""

import re
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from itertools import product
from typing import NamedTuple

import numpy as np

from cadmus import isa
from cadmus.config import Dataset
from cadmus.evaluate.criteria import Completed
from cadmus.evaluate.grading import Task
from cadmus.programs import Programs, join
from cadmus.vm.compiled import verdicts

_SYMBOLS = [row.symbol for row in isa.INSTRUCTIONS if row.symbol not in (isa.END, isa.DROP)]
_SLICE = re.compile(r"\{(-?\d+)\}|\{(-?\d*):(-?\d*)\}")
_SLICES = [
    *(f"{{{i}}}" for i in (*range(7), *range(-5, 0))),
    *(f"{{{i}:{j}}}" for i, j in product(range(6), range(2, 7)) if j - i > 1),
    *(f"{{{i}:{j}}}" for i, j in product(range(5), ("", -1, -2, -3))),
    *(f"{{{i}:{j}}}" for i, j in product(range(-6, -2), ("", -1))),
]
"""Pieces of the prompt from which the search composes policies."""
_SCREENS = ((16, 8_192), (128, 512))
"""Programs on which constants are executed, and constants that go on to the next of these screens."""
_GRADED = 100
"""Programs on which the search grades policies."""
_BEAM, _EDITS = 24, 200
"""Policies kept in each round of the search, and random edits of each."""


class Attack(NamedTuple):
    """A line of ``attacks.tsv``."""

    question: str
    kind: str
    policy: str
    why: str


@cache
def attacks() -> tuple[Attack, ...]:
    """Return the lines of ``attacks.tsv``."""
    text = files("cadmus.evaluate").joinpath("attacks.tsv").read_text()
    return tuple(Attack(*line.split("\t")) for line in text.splitlines()[1:])


def is_constant(policy: str) -> bool:
    """Tell whether a policy writes the same after every prompt."""
    return _SLICE.search(policy) is None


def apply(policy: str, prompts: Sequence[str]) -> list[str]:
    """Return the completion of each prompt.

    >>> apply("{0:3}0+{3:}=", ["29x6n", "34+"])
    ['29x0+6n=', '34+0+=']
    """
    parts: list[str | slice] = []
    end = 0
    for found in _SLICE.finditer(policy):
        one, start, stop = found.groups()
        parts.append(policy[end : found.start()])
        if one is not None:
            parts.append(slice(int(one), int(one) + 1 or None))
        else:
            parts.append(slice(int(start) if start else None, int(stop) if stop else None))
        end = found.end()
    parts.append(policy[end:])
    if len(parts) == 1:
        return [policy] * len(prompts)
    return ["".join(part if isinstance(part, str) else prompt[part] for part in parts) for prompt in prompts]


def solved_by(policies: Sequence[str], task: Task, dataset: Dataset) -> np.ndarray:
    """Return which programs each policy solves: bool, shape (policies, programs).

    No completion is longer than a program may be.
    """
    prompts = task.prompts.to_strings()
    texts = [text for policy in policies for text in apply(policy, prompts)]
    lengths = np.fromiter(map(len, texts), np.int64, len(texts)) + np.tile(task.prompt_length, len(policies))
    fits = [task.question.form.fullmatch(text) is not None for text in texts]
    solved = np.zeros(len(texts), np.bool_)
    rows = np.flatnonzero(np.array(fits, np.bool_) & (lengths <= dataset.max_length))
    if len(rows):
        of = rows % len(prompts)
        completions = Programs.from_strings(texts[row] for row in rows)
        ended = np.ones(len(rows), np.bool_)
        programs, lengths = task.programs.take(of), task.prompt_length[of]
        solved[rows] = task.question.solves(Completed(programs, lengths, completions, ended, dataset))
    return solved.reshape(len(policies), len(prompts))


def best(policies: Iterable[str], task: Task, dataset: Dataset) -> str:
    """Return the policy that solves most programs, in hindsight; the first of equals."""
    listed = list(dict.fromkeys(policies))
    return listed[int(solved_by(listed, task, dataset).sum(1).argmax())]


def best_constant(task: Task, dataset: Dataset, longest: int) -> str:
    """Search all constants of at most ``longest`` instructions for the one that solves most programs.

    All are executed after a few prompts; those that make most of them true are graded.
    """
    (few, most), *later = _SCREENS
    found: list[tuple[int, str]] = []
    for texts in _constants(longest):
        fits = [text for text in texts if task.question.form.fullmatch(text)]
        found += zip(_true(fits, _some(task, few)), fits, strict=True)
        found = sorted(found, key=lambda item: (-item[0], len(item[1])))[:most]
    kept = [text for true, text in found if true] or [""]
    for few, most in later:
        order = np.argsort([-true for true in _true(kept, _some(task, few))], kind="stable")
        kept = [kept[k] for k in order[:most]]
    solved = solved_by(kept, _some(task, _GRADED), dataset).sum(1)
    return best((kept[k] for k in np.argsort(-solved, kind="stable")[:_BEAM]), task, dataset)


def _true(texts: list[str], task: Task) -> list[int]:
    """Count the programs that each constant makes true."""
    n = len(task.programs)
    row, of = np.divmod(np.arange(len(texts) * n), n)
    programs = join(task.prompts.take(of), Programs.from_strings(texts).take(row))
    counts: list[int] = verdicts(programs).reshape(len(texts), n).sum(1).tolist()
    return counts


def best_copy(task: Task, dataset: Dataset, rounds: int, seed: int = 0) -> str:
    """Search for the policy that solves most programs, from those of ``attacks.tsv`` by random edits.

    In each round, instructions and pieces of the prompt are inserted, replaced and removed, and the best
    policies are kept.
    """
    rng = np.random.default_rng(seed)
    few = _some(task, _GRADED)
    symbols = sorted(set("".join(few.programs.suffixes(few.prompt_length).to_strings())))
    known = kept = list(dict.fromkeys(line.policy for line in attacks()))
    for _ in range(rounds):
        edited = [edit for policy in kept for edit in _edits(policy, symbols, rng)]
        listed = list(dict.fromkeys([*kept, *edited]))
        solved = solved_by(listed, few, dataset).sum(1)
        # Of equals the shorter, which more prompts have room for.
        order = np.lexsort(([len(policy) for policy in listed], -solved))
        kept = [listed[k] for k in order[:_BEAM]]
    return best([*kept, *known], task, dataset)


def _some(task: Task, most: int) -> Task:
    """Return a task with ``most`` of the programs, spread evenly."""
    rows = np.unique(np.linspace(0, len(task.programs) - 1, most).astype(np.int64))
    return task._replace(programs=task.programs.take(rows), prompt_length=task.prompt_length[rows])


def _constants(longest: int) -> Iterable[list[str]]:
    """Yield all texts of at most ``longest`` instructions."""
    yield [
        "".join(text) for length in range(min(longest, 3) + 1) for text in product(_SYMBOLS, repeat=length)
    ]
    for length in range(4, longest + 1):
        rest = ["".join(text) for text in product(_SYMBOLS, repeat=3)]
        for first in product(_SYMBOLS, repeat=length - 3):
            yield ["".join(first) + text for text in rest]


def _edits(policy: str, symbols: list[str], rng: np.random.Generator) -> Iterable[str]:
    tokens = [found.group() for found in re.finditer(r"\{[^}]*\}|.", policy)]
    for _ in range(_EDITS):
        pool = _SLICES if rng.random() < 0.5 else symbols
        new = pool[rng.integers(len(pool))]
        at = int(rng.integers(len(tokens) + 1))
        removed = int(rng.integers(2))
        added = [] if removed and rng.random() < 0.3 else [new]
        yield "".join([*tokens[:at], *added, *tokens[at + removed :]])
