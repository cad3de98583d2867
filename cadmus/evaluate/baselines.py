"""Policies that are graded like the model: what solves the questions without computing as the VM does."""

from collections.abc import Callable

import numpy as np
import polars as pl

from cadmus import isa
from cadmus.common.progress import progress
from cadmus.config import Dataset
from cadmus.evaluate.criteria import Completed, comparator
from cadmus.evaluate.grading import Task, grade
from cadmus.evaluate.learned import Learned
from cadmus.evaluate.lookup import first_that_holds, leaves_ones
from cadmus.programs import Programs, stack
from cadmus.vm.compiled import verdicts

BASELINES = {
    "ends_at_once": "Ends at once",
    "constant": "Best constant",
    "most_frequent": "Most frequent",
    "ngram": "5-gram",
    "operators": "Operators",
    "linear": "Linear",
    "lookup": "Lookup",
}
"""Baselines and their titles in tables:

* ``ends_at_once`` completes every prompt with nothing;
* ``constant`` completes it with the one instruction that solves most of its question's test programs;
* ``most_frequent`` with the most frequent completion of its question in the training set;
* ``ngram`` with the likeliest instructions of a 5-gram model over the training programs;
* ``linear`` with the completion that a multinomial logistic regression on the tokens of the prompt by place
  predicts (:mod:`cadmus.evaluate.linear`);
* ``operators`` likewise, with all literals hidden; only where the answer is a comparator;
* ``lookup`` with the first of the 10,000 most frequent completions of its question in the training set that
  makes the program true, for induction the first that gives 1 for all examples, else with the most frequent
  (:mod:`cadmus.evaluate.lookup`). Not where the answer is a comparator, because there the VM gives it away.

A baseline is absent from a question without training programs from which it could learn.
"""
_CONSTANTS = [row.symbol for row in isa.INSTRUCTIONS if row.symbol != isa.END]

Answers = tuple[Programs, np.ndarray]
"""Completions, and whether each ended: bool, shape (n,)."""


def grade_baselines(tasks: list[Task], learned: Learned, dataset: Dataset) -> pl.DataFrame:
    """Grade every baseline.

    Returns:
        The rows of :func:`cadmus.evaluate.grading.grade` of each of :data:`BASELINES`; none of a baseline
        that has no answers to a question.
    """
    graded = []
    for name in progress("grade baselines", list(BASELINES)):
        for task in tasks:
            answers = _ANSWERS[name](task, learned, dataset)
            if answers is not None:
                graded.append(_grade(task, answers, name, dataset))
    return pl.concat(graded)


def _grade(task: Task, answers: Answers, name: str, dataset: Dataset) -> pl.DataFrame:
    return grade([task], lambda *_: answers, name, dataset)


def _constant(task: Task, learned: Learned, dataset: Dataset) -> Answers:
    """Answer with the instruction that solves most programs, in hindsight; the first of equals."""
    answers = [_always(symbol, task, dataset) for symbol in _CONSTANTS]
    of = (Completed(task.programs, task.prompt_length, *each, dataset) for each in answers)
    return answers[int(np.argmax([task.question.solves(completed).sum() for completed in of]))]


def _most_frequent(task: Task, learned: Learned, dataset: Dataset) -> Answers | None:
    frequent = learned.frequent[task.name]
    return _always(frequent[0], task, dataset) if frequent else None


def _ngram(task: Task, learned: Learned, dataset: Dataset) -> Answers:
    return learned.ngrams.complete(task.prompts, dataset.max_length)


def _linear(task: Task, learned: Learned, dataset: Dataset, operators_only: bool = False) -> Answers | None:
    # PyTorch, which tables do not need, is imported here.
    from cadmus.evaluate.linear import Linear

    prompts = learned.prompts[task.name]
    if not len(prompts):
        return None
    fitted = Linear(prompts, learned.completions[task.name], operators_only)
    return _within(task, fitted.complete(task.prompts), dataset)


def _operators(task: Task, learned: Learned, dataset: Dataset) -> Answers | None:
    return _linear(task, learned, dataset, operators_only=True) if _asks_for_comparator(task) else None


def _lookup(task: Task, learned: Learned, dataset: Dataset) -> Answers | None:
    frequent = learned.frequent[task.name]
    if not frequent or _asks_for_comparator(task):
        return None
    candidates = Programs.from_strings(text for text in frequent if isa.DROP not in text)
    holds = verdicts if task.question.fits is None else leaves_ones
    found = first_that_holds(task.prompts, candidates, dataset.max_length, holds)
    # Row -1, where none holds, is the most frequent.
    chosen = stack([candidates, Programs.from_strings(frequent[:1])]).take(found % (len(candidates) + 1))
    return _within(task, chosen, dataset)


def _asks_for_comparator(task: Task) -> bool:
    return task.question.solves is comparator


def _always(text: str, task: Task, dataset: Dataset) -> Answers:
    """Complete every prompt with ``text``."""
    rows = np.zeros(len(task.programs), np.int64)
    return _within(task, Programs.from_strings([text]).take(rows), dataset)


def _within(task: Task, completions: Programs, dataset: Dataset) -> Answers:
    """Cut completions off, like those of the model, where a program reaches its maximum length."""
    room = np.maximum(dataset.max_length - task.prompt_length, 0)
    lengths = completions.lengths
    return completions.prefixes(np.minimum(lengths, room)), lengths <= room


_ANSWERS: dict[str, Callable[[Task, Learned, Dataset], Answers | None]] = {
    "ends_at_once": lambda task, _, dataset: _always("", task, dataset),
    "constant": _constant,
    "most_frequent": _most_frequent,
    "ngram": _ngram,
    "operators": _operators,
    "linear": _linear,
    "lookup": _lookup,
}
