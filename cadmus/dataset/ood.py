"""OOD rules: the programs that ``dataset.ood`` excludes from train, validation and test.

Excluded programs form the split ``ood``. It is sampled from the hash range of test, so none of its programs
is trained on, even if a rule names one template and another template draws the same program.
"""

from collections.abc import Iterable

import numpy as np

from cadmus.config import Dataset, OODRule
from cadmus.programs import Programs, Samples


def matches(rules: Iterable[OODRule], samples: Samples) -> np.ndarray:
    """Match programs against rules: bool, shape (rules, n). Without compared values, no value matches."""
    rows = [_matches(rule, samples) for rule in rules]
    return np.array(rows, np.bool_).reshape(len(rows), len(samples))


def _matches(rule: OODRule, samples: Samples) -> np.ndarray:
    if rule.length is not None:
        low, high = rule.length
        return (samples.programs.lengths >= low) & (samples.programs.lengths <= high)
    if rule.contains is not None:
        every = np.zeros(len(samples), np.int64)
        pieces = (Programs.from_strings([piece]).take(every) for piece in rule.contains)
        return np.any([samples.programs.contain(piece) for piece in pieces], axis=0)
    if samples.x is None or samples.y is None:
        return np.zeros(len(samples), np.bool_)
    return _matches_values(rule, samples.x, samples.y)


def _matches_values(rule: OODRule, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    combine = np.logical_or if rule.compared == "either" else np.logical_and
    return combine(*(_among(column, rule.values or []) for column in (x, y)))


def excluded_pairs(dataset: Dataset, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Tell which pairs of compared values the rules by value exclude: bool, shape (n,).

    Equal values are those of the template equality, others of less_greater.
    """
    excluded = np.zeros(len(x), np.bool_)
    for template, pairs in (("equality", x == y), ("less_greater", x != y)):
        for rule in dataset.rules_for(template).values():
            if rule.values is not None:
                excluded |= pairs & _matches_values(rule, x, y)
    return excluded


def _among(numbers: np.ndarray, values: list[int | list[int]]) -> np.ndarray:
    """Tell which numbers are in one of the intervals; a masked one is in none."""
    intervals = [value if isinstance(value, list) else [value] for value in values]
    inside = [np.ma.filled((numbers >= ends[0]) & (numbers <= ends[-1]), False) for ends in intervals]
    return np.any(inside, axis=0)
