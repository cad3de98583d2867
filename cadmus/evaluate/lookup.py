"""Completions found by search with the VM: the baseline that executes and learns nothing."""

import numpy as np

from cadmus.config import Dataset
from cadmus.evaluate.criteria import Completed
from cadmus.evaluate.grading import Task
from cadmus.programs import Programs, join
from cadmus.vm.compiled import verdicts

_AT_ONCE = 1 << 18


def first_that_holds(task: Task, candidates: Programs, dataset: Dataset) -> np.ndarray:
    """Return the first candidate that completes each prompt as far as execution can tell.

    A candidate holds if it solves an open question or, for induction, fits the examples; neither depends on
    the reference.

    Args:
        task: n prompts of an open question.
        candidates: completions, the first one to try first.
        dataset: limits the length of programs.

    Returns:
        Rows of ``candidates``: int64, shape (n,); -1 where none holds.
    """
    prompts, holds = task.prompts, task.question.fits or task.question.solves
    found = np.full(len(prompts), -1)
    first = 0
    while first < len(candidates) and len(unsolved := np.flatnonzero(found < 0)):
        tried = np.arange(first, min(first + max(1, _AT_ONCE // len(unsolved)), len(candidates)))
        row, candidate = (side.ravel() for side in np.meshgrid(unsolved, tried, indexing="ij"))
        short = prompts.lengths[row] + candidates.lengths[candidate] <= dataset.max_length
        row, candidate = row[short], candidate[short]
        true = verdicts(join(prompts.take(row), candidates.take(candidate)))
        row, candidate = row[true], candidate[true]
        ended = np.ones(len(row), np.bool_)
        programs, lengths = task.programs.take(row), task.prompt_length[row]
        held = holds(Completed(programs, lengths, candidates.take(candidate), ended, dataset))
        # The rows ascend, and the candidates of a row.
        solved, first_of_row = np.unique(row[held], return_index=True)
        found[solved] = candidate[held][first_of_row]
        first = tried[-1] + 1
    return found
