"""Held-out rules: which programs ``dataset.ood`` keeps out of train, validation and test.

What the rules exclude makes a split of its own, ``ood``.  It is drawn from the share of programs whose
hash belongs to test, so that none of it is trained on even where a rule is for one template and another
template happens to give the same program.
"""

from collections.abc import Iterable

import numpy as np

from cadmus.config import OODRule
from cadmus.programs import Programs


def matches(
    rules: Iterable[OODRule], programs: Programs, x: np.ndarray | None, y: np.ndarray | None
) -> np.ndarray:
    """Which rule matches which program: bool, shape (rules, n).

    Args:
        rules: the rules for the template of the programs.
        programs: n programs, without their ends.
        x, y: the compared values, integers of shape (n,), or None where the template has none; then a rule
            by value matches nothing.
    """
    rows = [_matches(rule, programs, x, y) for rule in rules]
    return np.array(rows, np.bool_).reshape(len(rows), len(programs))


def _matches(rule: OODRule, programs: Programs, x: np.ndarray | None, y: np.ndarray | None) -> np.ndarray:
    if rule.length is not None:
        low, high = rule.length
        return (programs.lengths >= low) & (programs.lengths <= high)
    if rule.contains is not None:
        return _any([_contains(programs, piece.encode()) for piece in rule.contains])
    if x is None or y is None:
        return np.zeros(len(programs), np.bool_)
    combine = np.logical_or if rule.compared == "either" else np.logical_and
    matched: np.ndarray = combine(_among(x, rule.values or []), _among(y, rule.values or []))
    return matched


def _among(numbers: np.ndarray, values: list[int | list[int]]) -> np.ndarray:
    intervals = [value if isinstance(value, list) else [value] for value in values]
    return _any([(numbers >= bounds[0]) & (numbers <= bounds[-1]) for bounds in intervals])


def _any(masks: list[np.ndarray]) -> np.ndarray:
    """Where one mask at least is true."""
    found: np.ndarray = np.any(masks, axis=0)
    return found


def _contains(programs: Programs, piece: bytes) -> np.ndarray:
    """Which programs have the instructions of ``piece`` one after another."""
    data = programs.data
    starts = np.ones(max(0, len(data) - len(piece) + 1), np.bool_)
    for place, symbol in enumerate(piece):
        starts &= data[place : place + len(starts)] == symbol
    found = np.flatnonzero(starts)
    rows = np.searchsorted(programs.offsets, found, "right") - 1
    inside = found + len(piece) <= programs.offsets[rows + 1]
    matched = np.zeros(len(programs), np.bool_)
    matched[rows[inside]] = True
    return matched
