"""Policies that are graded like the model: what solves the questions without computing as the VM does.

An accuracy says little alone, because some questions give part of their answer away: a constant, the surface
of the prompt, or what is frequent in training may be enough. Each baseline has one such source and no other.
What the model solves beyond the best of them, it computes. The last one shows what search with the VM finds.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

from cadmus import isa
from cadmus.config import Dataset
from cadmus.dataset.manifest import read_manifest, stream_split
from cadmus.evaluate.baselines import attacks
from cadmus.evaluate.baselines.rewriting import rules
from cadmus.evaluate.criteria import comparator
from cadmus.evaluate.grading import Policy, TaskBatch, grade
from cadmus.evaluate.questions import subjects_of
from cadmus.programs import Programs, Samples, concat, join
from cadmus.tools import generator, progress
from cadmus.vm.compiled import are_true

EXECUTING = "retrieval"
"""The baseline that executes completions before it answers."""

_FREQUENT = 10_000  # completions of a question that `retrieval` tries
_EXAMPLES = 50_000  # programs of a question that regressions are fitted to
_COUNTED = 200_000  # distinct completions counted per question; of more the rarer half goes, for memory
_AT_ONCE = 1 << 18  # candidates executed at a time, for memory
BASELINE_OF_SAMPLES = "training_completion"
"""Name of the baseline of pass@k, see :func:`training_completions`."""
_DRAWN_FROM = 100_000  # programs of a template that it draws from; only the first shard is read

Answers = tuple[Programs, np.ndarray]
"""Completions, and whether each ended: bool, shape (n,)."""


class Learned:
    """Statistics that the baselines use, from one pass over a training set.

    ``frequent`` has the 10,000 most frequent completions of each question, ``prompts`` and ``completions``
    are those of its first 50,000 training programs, and ``seen`` is what its training programs ask about, as
    far as ``tasks`` ask about it too.
    """

    def __init__(self, directory: Path, tasks: list[TaskBatch]) -> None:
        none = Programs.from_strings([])
        self.prompts = {task.name: none for task in tasks}
        self.completions = {task.name: none for task in tasks}
        self.seen: dict[str, set[str]] = {task.name: set() for task in tasks}
        counts: dict[str, Counter[str]] = {task.name: Counter() for task in tasks}
        # Only the subjects that tests ask about: those of all training programs would fill the memory.
        tested = {task.name: subjects_of(task.question, task.programs, task.prompt_length) for task in tasks}
        files = [file for file in read_manifest(directory).files if file.split == "train"]
        shards = stream_split(directory, "train")
        for file, shard in zip(progress("baselines", files), shards, strict=True):
            for task in tasks:
                if task.question.template == file.template:
                    counts[task.name] += self._read(task, shard)
                    if len(counts[task.name]) > _COUNTED:
                        counts[task.name] = Counter(_most(counts[task.name], _COUNTED // 2))
                    subjects = subjects_of(task.question, shard.programs, shard.prompt_length)
                    is_tested = subjects.is_in(tested[task.name].implode())
                    self.seen[task.name].update(subjects.filter(is_tested))
        self.frequent = {name: [*_most(of_name, _FREQUENT)] for name, of_name in counts.items()}

    def _read(self, task: TaskBatch, shard: Samples) -> Counter[str]:
        """Keep the first prompts and completions; count all completions but the rare ones of a shard."""
        rows, prompt_length = task.question.cut(shard)
        programs = shard.programs.take(rows)
        rest = programs.suffixes(prompt_length)
        first = np.arange(min(len(rows), _EXAMPLES - len(self.prompts[task.name])))
        prompts = programs.prefixes(prompt_length)
        self.prompts[task.name] = concat([self.prompts[task.name], prompts.take(first)])
        self.completions[task.name] = concat([self.completions[task.name], rest.take(first)])
        counts = pl.Series("completion", rest.to_arrow()).value_counts()
        # By text among equals, because value_counts has no order.
        most = counts.sort("count", "completion", descending=[True, False]).head(_FREQUENT)
        return Counter(dict(most.iter_rows()))


def _most(counts: Counter[str], most: int) -> dict[str, int]:
    """Return the most frequent texts; of equals the first in the alphabet."""
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:most])


def grade_baselines(tasks: list[TaskBatch], learned: Learned, dataset: Dataset) -> pl.DataFrame:
    """Grade every baseline, see :func:`cadmus.evaluate.grading.grade`; no rows where it has no answers."""
    graded = []
    for name, answer in progress("grade baselines", list(BASELINES.items())):
        for task in tasks:
            answers = answer(task, learned, dataset)
            if answers is not None:
                # A default, because the loop changes what the name means.
                graded.append(grade([task], lambda *_, answers=answers: answers, name, dataset))
    return pl.concat(graded)


def training_completions(directory: Path, tasks: list[TaskBatch], seed: int) -> Policy:
    """Return the baseline: a policy that draws the completion of a training program of the same question."""
    completions: dict[str, Programs] = {}
    for template in dict.fromkeys(task.question.template for task in tasks):
        shard = next(stream_split(directory, "train", [template]))
        shard = shard.take(np.arange(min(len(shard), _DRAWN_FROM)))
        for task in tasks:
            if task.question.template == template:
                rows, prompt_length = task.question.cut(shard)
                # Of a few random programs, none may have a prompt that is not true yet.
                rest = shard.programs.take(rows).suffixes(prompt_length)
                completions[task.name] = rest if len(rest) else Programs.from_strings([""])

    def complete(question: str, prompts: Programs) -> tuple[Programs, np.ndarray]:
        # A stream per question: leaving a question out does not change the others.
        rng = generator(seed, BASELINE_OF_SAMPLES, question)
        rows = rng.integers(len(completions[question]), size=len(prompts))
        return completions[question].take(rows), np.ones(len(prompts), np.bool_)

    return complete


def _constant(task: TaskBatch, learned: Learned, dataset: Dataset) -> Answers:
    listed = (line.policy for line in attacks.attacks() if attacks.is_constant(line.policy))
    symbols = (symbol for symbol in isa.TOKEN_ID if symbol != isa.END)
    return _always(attacks.best((*symbols, *listed), task, dataset), task, dataset)


def _copy(task: TaskBatch, learned: Learned, dataset: Dataset) -> Answers | None:
    if task.question.solves is comparator:
        return None
    listed = (line.policy for line in attacks.attacks() if not attacks.is_constant(line.policy))
    return _within(task, attacks.apply(attacks.best(listed, task, dataset), task.prompts), dataset)


def _rewrite(task: TaskBatch, learned: Learned, dataset: Dataset) -> Answers | None:
    prompts = task.prompts.to_strings()
    answers = [_within(task, Programs.from_strings(map(rule, prompts)), dataset) for rule in rules(task.name)]
    every = np.arange(len(prompts))
    solved = [
        np.sum(task.question.solves(task.completed(every, completions, dataset)) & ended)
        for completions, ended in answers
    ]
    return answers[int(np.argmax(solved))] if answers else None


def _most_frequent(task: TaskBatch, learned: Learned, dataset: Dataset) -> Answers | None:
    frequent = learned.frequent[task.name]
    return _always(frequent[0], task, dataset) if frequent else None


def _linear(
    task: TaskBatch, learned: Learned, dataset: Dataset, *, operators_only: bool = False, pairs: bool = False
) -> Answers | None:
    # PyTorch, which tables do not need, is imported here.
    from cadmus.evaluate.baselines.linear import Linear

    prompts = learned.prompts[task.name]
    if not len(prompts) or (operators_only and task.question.solves is not comparator):
        return None
    fitted = Linear(prompts, learned.completions[task.name], operators_only, pairs)
    return _within(task, fitted.complete(task.prompts), dataset)


def _retrieval(task: TaskBatch, learned: Learned, dataset: Dataset) -> Answers | None:
    frequent = learned.frequent[task.name]
    # The VM would give the answer away where only one is right.
    if not frequent or not task.question.open:
        return None
    candidates = Programs.from_strings(frequent)
    # Row 0 is the most frequent, if none holds.
    rows = np.maximum(first_that_holds(task, candidates, dataset), 0)
    return _within(task, candidates.take(rows), dataset)


def first_that_holds(task: TaskBatch, candidates: Programs, dataset: Dataset) -> np.ndarray:
    """Return the row of the first candidate that completes each prompt: int64, shape (n,); -1 without one.

    It solves an open question or, for induction, fits the examples; neither depends on the reference.
    """
    prompts, holds = task.prompts, task.question.fits or task.question.solves
    answers = np.full(len(prompts), -1)
    first = 0
    while first < len(candidates) and len(unsolved := np.flatnonzero(answers < 0)):
        # The fewer prompts are left, the more candidates fit in a round.
        tried = np.arange(first, min(first + max(1, _AT_ONCE // len(unsolved)), len(candidates)))
        row, candidate = (side.ravel() for side in np.meshgrid(unsolved, tried, indexing="ij"))
        short = prompts.lengths[row] + candidates.lengths[candidate] <= dataset.max_length
        row, candidate = row[short], candidate[short]
        # Truth is a cheap test that most candidates fail; grading those that pass takes longer.
        true = are_true(join(prompts.take(row), candidates.take(candidate)))
        row, candidate = row[true], candidate[true]
        held = holds(task.completed(row, candidates.take(candidate), dataset))
        # The rows ascend, and the candidates of a row.
        solved, first_of_row = np.unique(row[held], return_index=True)
        answers[solved] = candidate[held][first_of_row]
        first = tried[-1] + 1
    return answers


def _always(text: str, task: TaskBatch, dataset: Dataset) -> Answers:
    return _within(task, Programs.from_strings([text] * len(task.programs)), dataset)


def _within(task: TaskBatch, completions: Programs, dataset: Dataset) -> Answers:
    """Cut completions off, like those of the model, where a program reaches its maximum length."""
    room = np.maximum(dataset.max_length - task.prompt_length, 0)
    lengths = completions.lengths
    return completions.prefixes(np.minimum(lengths, room)), lengths <= room


# The first of equally good baselines is the one that tables name.
BASELINES: dict[str, Callable[[TaskBatch, Learned, Dataset], Answers | None]] = {
    "ends_at_once": lambda task, _, dataset: _always("", task, dataset),
    "constant": _constant,
    "most_frequent": _most_frequent,
    "copy": _copy,
    "rewrite": _rewrite,
    "operators": partial(_linear, operators_only=True),
    "linear": _linear,
    "pairs": partial(_linear, pairs=True),
    "retrieval": _retrieval,
}
"""The baselines of ``docs/grading.md``. They answer a task, or None where they are absent."""
