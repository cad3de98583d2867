"""Policies that are graded like the model: what solves the questions without computing as the VM does."""

from collections.abc import Callable

import numpy as np
import polars as pl

from cadmus import isa
from cadmus.config import Dataset
from cadmus.evaluate import attacks
from cadmus.evaluate.criteria import comparator
from cadmus.evaluate.grading import Task, grade
from cadmus.evaluate.learned import Learned
from cadmus.evaluate.lookup import first_that_holds
from cadmus.programs import Programs
from cadmus.tools import progress

BASELINES = {
    "ends_at_once": "Ends at once",
    "constant": "Constant",
    "most_frequent": "Most frequent",
    "ngram": "5-gram",
    "copy": "Copy",
    "operators": "Operators",
    "linear": "Linear",
    "lookup": "Lookup",
}
"""Baselines and their titles in tables:

* ``ends_at_once`` completes every prompt with nothing;
* ``constant`` completes it with the constant that solves most of its question's test programs: one
  instruction or a text of ``attacks.tsv`` (:mod:`cadmus.evaluate.attacks`);
* ``most_frequent`` with the most frequent completion of its question in the training set;
* ``ngram`` with the likeliest instructions of a 5-gram model over the training programs;
* ``copy`` with the policy of ``attacks.tsv`` that copies from the prompt and solves most test programs; not
  where the answer is a comparator;
* ``linear`` with the completion that a multinomial logistic regression on the tokens of the prompt by place
  predicts (:mod:`cadmus.evaluate.linear`);
* ``operators`` likewise, with all literals hidden; only where the answer is a comparator;
* ``lookup`` with the first of the 10,000 most frequent completions of its question in the training set that
  makes the program true in the form that is asked for, else with the most frequent
  (:mod:`cadmus.evaluate.lookup`). Only of open questions: where one answer is right, the VM gives it away.

A baseline is absent from a question without training programs from which it could learn.
"""
EXECUTING = "lookup"
"""The baseline that executes completions before it answers."""

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
    """Answer with the constant that solves most programs, in hindsight."""
    listed = (line.policy for line in attacks.attacks() if attacks.is_constant(line.policy))
    symbols = (symbol for symbol in isa.TOKEN_ID if symbol != isa.END)
    return _always(attacks.best((*symbols, *listed), task, dataset), task, dataset)


def _copy(task: Task, learned: Learned, dataset: Dataset) -> Answers | None:
    """Answer with the copying policy that solves most programs, in hindsight."""
    if _asks_for_comparator(task):
        return None
    listed = (line.policy for line in attacks.attacks() if not attacks.is_constant(line.policy))
    texts = attacks.apply(attacks.best(listed, task, dataset), task.prompts.to_strings())
    return _within(task, Programs.from_strings(texts), dataset)


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
    if not frequent or not task.question.open:
        return None
    candidates = Programs.from_strings(frequent)
    # The most frequent if none holds.
    found = np.maximum(first_that_holds(task, candidates, dataset), 0)
    return _within(task, candidates.take(found), dataset)


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
    "copy": _copy,
    "operators": _operators,
    "linear": _linear,
    "lookup": _lookup,
}
