"""All number expressions of 1, 3, 5 and 7 instructions, by value.

An expression is made of digits and arithmetic operators and leaves one number. The paper draws its number
comparison from "all possible five instruction programs to compute a single value": three digits and two
operators, in the shapes ``ddodo`` and ``dddoo``.

Expressions of up to five instructions are enumerated and executed once. Those of seven, 17 million with all
operators, are pairs of shorter ones and an operator; only the pairs of values are enumerated.
"""

import functools
from dataclasses import dataclass

import numba
import numpy as np

from cadmus.config import OPERATORS
from cadmus.programs import Programs, interleave, join
from cadmus.vm import compiled
from cadmus.vm.values import NUMBER

DIGITS = np.frombuffer(b"0123456789", np.uint8)
HALF = 5
"""Instructions of each of the two expressions that the paper compares."""
SHAPES = {1: ("d",), 3: ("ddo",), 5: ("ddodo", "dddoo")}
"""Arrangements of digits (d) and operators (o), by the number of instructions."""


@dataclass(frozen=True)
class _Groups:
    """Expressions of one length in groups of one value, which can be counted and drawn by value."""

    values: np.ndarray
    """int64, shape (k,), the value of each group, ascending"""
    before: np.ndarray
    """int64, shape (k + 1,), expressions in all groups before each"""

    @property
    def extent(self) -> tuple[int, int]:
        """The smallest and the largest value."""
        return int(self.values[0]), int(self.values[-1])

    def count(self, values: np.ndarray) -> np.ndarray:
        """Count the expressions with each of ``values``: int64, of the same shape."""
        smallest, last = self.extent[0], len(self._below) - 1
        start, stop = (self._below[np.clip(values - smallest + above, 0, last)] for above in (0, 1))
        return stop - start

    def _draw(self, rng: np.random.Generator, values: np.ndarray) -> np.ndarray:
        """Draw the index of an expression for each of ``values``, uniformly among those of the value."""
        indices = _draw_between(rng.random(len(values)), values, self.extent[0], self._below)
        if np.any(indices < 0):
            raise ValueError(f"no expression has the value {values[indices < 0][0]}")
        return indices

    # An entry per integer: a look-up then takes constant time, where searching a table of values would not.
    @functools.cached_property
    def _below(self) -> np.ndarray:
        """The number of expressions below each value, from the smallest value to one above the largest."""
        smallest, largest = self.extent
        return self.before[np.searchsorted(self.values, np.arange(smallest, largest + 2))]


@dataclass(frozen=True)
class Expressions(_Groups):
    """Enumerated expressions of one length; each is a group."""

    texts: np.ndarray
    """uint8, shape (n, length), in the order of the values"""

    @property
    def programs(self) -> Programs:
        """All expressions."""
        return _fixed_length(self.texts)

    def sample(self, rng: np.random.Generator, values: np.ndarray) -> Programs:
        """Draw an expression for each of ``values``, uniformly among those of the value."""
        return _fixed_length(self.texts.take(self._draw(rng, values), axis=0))


@dataclass(frozen=True)
class Composed(_Groups):
    """Expressions of one length that are two shorter ones and an operator.

    A group has all expressions with the same left value, right value, left length (int64, shape (k,)) and
    operator (uint8). ``length`` is that of the whole, ``operators`` are those of the shorter expressions.
    """

    length: int
    operators: str
    left: np.ndarray
    right: np.ndarray
    left_length: np.ndarray
    operator: np.ndarray

    def sample(self, rng: np.random.Generator, values: np.ndarray) -> Programs:
        """As :meth:`Expressions.sample`."""
        group = np.searchsorted(self.before, self._draw(rng, values), "right") - 1
        batches = []
        lengths = self.left_length[group]
        for left_length in range(1, self.length - 1, 2):
            chosen = group[lengths == left_length]
            left = short_expressions(left_length, self.operators).sample(rng, self.left[chosen])
            right_length = self.length - 1 - left_length
            right = short_expressions(right_length, self.operators).sample(rng, self.right[chosen])
            batches.append(join(left, right, self.operator[chosen]))
        return interleave(lengths // 2, batches)  # of the lengths 1, 3 and 5


def expressions(length: int, operators: str = OPERATORS) -> Expressions | Composed:
    """Return the expressions of ``length`` instructions (1, 3, 5 or 7) made of digits and ``operators``."""
    return short_expressions(length, operators) if length in SHAPES else _compose(length, operators)


@functools.cache
def short_expressions(length: int, operators: str = OPERATORS) -> Expressions:
    """Enumerate the expressions of 1, 3 or 5 instructions."""
    alphabet = {"d": DIGITS, "o": np.frombuffer(operators.encode(), np.uint8)}
    grids = [np.meshgrid(*(alphabet[at] for at in shape), indexing="ij") for shape in SHAPES[length]]
    texts = np.concatenate([np.stack([axis.ravel() for axis in grid], axis=1) for grid in grids])
    outcome = compiled.execute(_fixed_length(texts))
    rows = np.flatnonzero(outcome.kind == NUMBER)
    values = outcome.values[rows, 0].astype(np.int64)
    # Stable, so that an expression has the same index, and a seed draws it, on every machine.
    order = np.argsort(values, kind="stable")
    return Expressions(values[order], np.arange(len(values) + 1), texts[rows[order]])


@functools.cache
def _compose(length: int, operators: str) -> Composed:
    """Execute one example of every pair of shorter values with every operator."""
    columns = []
    for left_length in range(1, length - 1, 2):
        right_length = length - 1 - left_length
        tables = [short_expressions(part, operators) for part in (left_length, right_length)]
        (left_values, left_first, left_counts), (right_values, right_first, right_counts) = (
            np.unique(table.values, return_index=True, return_counts=True) for table in tables
        )
        left, right = (axis.ravel() for axis in np.indices((len(left_values), len(right_values))))
        examples = tables[0].programs.take(left_first[left]), tables[1].programs.take(right_first[right])
        for operator in operators.encode():
            outcome = compiled.execute(join(*examples, bytes([operator])))
            rows = np.flatnonzero(outcome.kind == NUMBER)
            columns.append(
                (
                    outcome.values[rows, 0].astype(np.int64),
                    left_counts[left[rows]] * right_counts[right[rows]],
                    left_values[left[rows]],
                    right_values[right[rows]],
                    np.full(len(rows), left_length),
                    np.full(len(rows), operator, np.uint8),
                )
            )
    values, counts, *others = (np.concatenate(column) for column in zip(*columns, strict=True))
    order = np.argsort(values, kind="stable")
    before = np.concatenate([[0], np.cumsum(counts[order])])
    return Composed(values[order], before, length, operators, *(column[order] for column in others))


def _fixed_length(texts: np.ndarray) -> Programs:
    """Return programs of one length: ``texts`` is uint8, shape (n, length)."""
    n, length = texts.shape
    return Programs(texts.ravel(), np.arange(n + 1, dtype=np.int64) * length)


@numba.njit(cache=True, nogil=True)
def _draw_between(
    random: np.ndarray, values: np.ndarray, smallest: int, below: np.ndarray
) -> np.ndarray:  # pragma: no cover - compiled
    """Return a number from ``below[v]`` to ``below[v + 1] - 1`` for each value, -1 if there is none."""
    numbers = np.full(len(values), -1, np.int64)
    for i in range(len(values)):
        index = values[i] - smallest
        if 0 <= index < len(below) - 1 and below[index] < below[index + 1]:
            numbers[i] = below[index] + int(random[i] * (below[index + 1] - below[index]))
    return numbers
