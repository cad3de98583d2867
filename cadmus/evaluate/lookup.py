"""Completions found by search with the VM: the baseline that executes and learns nothing."""

from collections.abc import Callable

import numpy as np

from cadmus.programs import Programs, join
from cadmus.vm.compiled import execute, same_outputs

_AT_ONCE = 1 << 18


def leaves_ones(programs: Programs) -> np.ndarray:
    """Return whether a program leaves 1s alone, as comparisons that hold do: bool, shape (n,)."""
    outcome = execute(programs)
    ones = outcome.true
    true = np.flatnonzero(ones)
    expected = Programs.from_strings("1" * count for count in outcome.count[true].tolist())
    ones[true] = same_outputs(programs.take(true), expected)
    return ones


def first_that_holds(
    prompts: Programs,
    candidates: Programs,
    max_length: int,
    holds: Callable[[Programs], np.ndarray],
) -> np.ndarray:
    """Return the first candidate that completes each prompt to a program that holds.

    Args:
        prompts: n prompts.
        candidates: completions, the first one to try first.
        max_length: programs with more instructions are not executed.
        holds: :func:`cadmus.vm.compiled.verdicts` or :func:`leaves_ones`.

    Returns:
        Rows of ``candidates``: int64, shape (n,); -1 where none holds.
    """
    found = np.full(len(prompts), -1)
    first = 0
    while first < len(candidates) and len(unsolved := np.flatnonzero(found < 0)):
        tried = np.arange(first, min(first + max(1, _AT_ONCE // len(unsolved)), len(candidates)))
        row, candidate = (side.ravel() for side in np.meshgrid(unsolved, tried, indexing="ij"))
        short = prompts.lengths[row] + candidates.lengths[candidate] <= max_length
        row, candidate = row[short], candidate[short]
        held = holds(join(prompts.take(row), candidates.take(candidate)))
        # The rows ascend, and the candidates of a row.
        solved, first_of_row = np.unique(row[held], return_index=True)
        found[solved] = candidate[held][first_of_row]
        first = tried[-1] + 1
    return found
