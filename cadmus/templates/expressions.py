"""All number expressions of 1, 3, 5 and 7 instructions, by value.

An expression is made of digits and arithmetic operators and leaves one number.  The paper's number
comparison is drawn from "all possible five instruction programs to compute a single value": three digits
and two operators, in the shapes ``ddodo`` and ``dddoo``.

Up to five instructions they are enumerated once and executed.  Those of seven, 17 million with all
operators, are two shorter ones and an operator; which values come together is enumerated instead.
"""

import functools
from dataclasses import dataclass

import numba
import numpy as np

from cadmus.config import OPERATORS
from cadmus.programs import Programs, interleave, join
from cadmus.vm import compiled
from cadmus.vm.outcome import NUMBER

DIGITS = np.frombuffer(b"0123456789", np.uint8)
SHAPES = {1: ("d",), 3: ("ddo",), 5: ("ddodo", "dddoo")}
"""Where the digits (d) and the operators (o) stand, by the number of instructions."""


class _ByValue:
    """Expressions of one length, which can be counted and drawn by value.

    Attributes:
        values: int64, ascending, the value of each expression or group of expressions.
        before: int64, one longer, how many expressions stand before each of these.
    """

    values: np.ndarray
    before: np.ndarray

    @property
    def extent(self) -> tuple[int, int]:
        """The smallest and the largest value."""
        return int(self.values[0]), int(self.values[-1])

    @property
    def total(self) -> int:
        """How many expressions have a value."""
        return int(self.before[-1])

    def count(self, values: np.ndarray) -> np.ndarray:
        """How many expressions have each of ``values``: int64, of the same shape."""
        smallest, last = self.extent[0], len(self._below) - 1
        start, stop = (self._below[np.clip(values - smallest + above, 0, last)] for above in (0, 1))
        counts: np.ndarray = stop - start
        return counts

    def _draw(self, rng: np.random.Generator, values: np.ndarray) -> np.ndarray:
        """The number of an expression for each of ``values``, uniformly among those that have the value."""
        numbers = _draw_between(rng.random(len(values)), values, self.extent[0], self._below)
        if np.any(numbers < 0):
            raise ValueError(f"no expression has the value {values[numbers < 0][0]}")
        return numbers

    @functools.cached_property
    def _below(self) -> np.ndarray:
        """How many expressions have a smaller value, for each value from the smallest to the next."""
        smallest, largest = self.extent
        return self.before[np.searchsorted(self.values, np.arange(smallest, largest + 2))]


@dataclass(frozen=True)
class Expressions(_ByValue):
    """The expressions of one length that have a value, in the order of their values.

    Attributes:
        texts: uint8, shape (n, length), the expressions.
        values: int64, shape (n,), ascending.
        before: int64, shape (n + 1,), the numbers from 0 to n.
        enumerated: expressions of this length, those that are NAN included.
    """

    texts: np.ndarray
    values: np.ndarray
    before: np.ndarray
    enumerated: int

    @property
    def programs(self) -> Programs:
        """The n expressions."""
        return _fixed_length(self.texts)

    def sample(self, rng: np.random.Generator, values: np.ndarray) -> Programs:
        """An expression for each of ``values``, uniformly among those that have the value.

        Raises:
            ValueError: one of the values has no expression of this length.
        """
        return _fixed_length(_gather(self.texts, self._draw(rng, values)))


@dataclass(frozen=True)
class Composed(_ByValue):
    """The expressions of one length, each two shorter ones and an operator: as :class:`Expressions`.

    The pieces are known by their values alone: how an expression of one value, an expression of another
    and an operator come together is one of k compositions, which stand in the order of their results.

    Attributes:
        values: int64, shape (k,), the results, ascending.
        left, right: int64, shape (k,), the values of the two expressions.
        left_length: int64, shape (k,), instructions of the left expression.
        operator: uint8, shape (k,).
        before: int64, shape (k + 1,), how many expressions all the compositions before one stand for.
        length: instructions of the whole.
        operators: which the shorter expressions are made of.
    """

    values: np.ndarray
    left: np.ndarray
    right: np.ndarray
    left_length: np.ndarray
    operator: np.ndarray
    before: np.ndarray
    length: int
    operators: str

    def sample(self, rng: np.random.Generator, values: np.ndarray) -> Programs:
        """An expression for each of ``values``, uniformly among those that have the value.

        Raises:
            ValueError: one of the values has no expression of this length.
        """
        drawn = np.searchsorted(self.before, self._draw(rng, values), "right") - 1
        pieces = []
        lengths = self.left_length[drawn]
        for left_length in range(1, self.length - 1, 2):
            of = drawn[lengths == left_length]
            left = short_expressions(left_length, self.operators).sample(rng, self.left[of])
            right_length = self.length - 1 - left_length
            right = short_expressions(right_length, self.operators).sample(rng, self.right[of])
            pieces.append(join(left, right, self.operator[of]))
        return interleave(lengths // 2, pieces)


def expressions(length: int, operators: str = OPERATORS) -> Expressions | Composed:
    """The expressions of ``length`` instructions (1, 3, 5 or 7) made of digits and ``operators``."""
    return short_expressions(length, operators) if length in SHAPES else _compose(length, operators)


@functools.cache
def short_expressions(length: int, operators: str = OPERATORS) -> Expressions:
    """Those of 1, 3 or 5 instructions, which are enumerated."""
    texts = np.concatenate([_enumerate(shape, operators) for shape in SHAPES[length]])
    outcome = compiled.execute(_fixed_length(texts))
    rows = np.flatnonzero(outcome.kind == NUMBER)
    values = outcome.values[rows, 0].astype(np.int64)
    order = np.argsort(values, kind="stable")
    return Expressions(texts[rows[order]], values[order], np.arange(len(values) + 1), len(texts))


def _enumerate(shape: str, operators: str) -> np.ndarray:
    """Every expression of a shape: uint8, shape (expressions, instructions)."""
    alphabet = {"d": DIGITS, "o": np.frombuffer(operators.encode(), np.uint8)}
    axes = np.meshgrid(*(alphabet[place] for place in shape), indexing="ij")
    return np.stack([axis.ravel() for axis in axes], axis=1)


@functools.cache
def _compose(length: int, operators: str) -> Composed:
    """Every pair of values of shorter expressions under every operator, one example of each executed."""
    columns = []
    for left_length in range(1, length - 1, 2):
        lengths = left_length, length - 1 - left_length
        tables = [short_expressions(of, operators) for of in lengths]
        distinct = [np.unique(table.values, return_index=True, return_counts=True) for table in tables]
        grid = np.meshgrid(*(np.arange(len(of[0])) for of in distinct), indexing="ij")
        left, right = (axis.ravel() for axis in grid)
        # The first expression of a value stands for all of them.
        examples = [
            table.programs.take(of[1][rows])
            for table, of, rows in zip(tables, distinct, (left, right), strict=True)
        ]
        for operator in operators.encode():
            outcome = compiled.execute(join(*examples, bytes([operator])))
            rows = np.flatnonzero(outcome.kind == NUMBER)
            columns.append(
                (
                    outcome.values[rows, 0].astype(np.int64),
                    distinct[0][0][left[rows]],
                    distinct[1][0][right[rows]],
                    np.full(len(rows), left_length),
                    np.full(len(rows), operator, np.uint8),
                    distinct[0][2][left[rows]] * distinct[1][2][right[rows]],
                )
            )
    values, *pieces, weights = (np.concatenate(column) for column in zip(*columns, strict=True))
    order = np.argsort(values, kind="stable")
    before = np.concatenate([[0], np.cumsum(weights[order])])
    left, right, left_lengths, symbols = (piece[order] for piece in pieces)
    return Composed(values[order], left, right, left_lengths, symbols, before, length, operators)


def _fixed_length(texts: np.ndarray) -> Programs:
    """Programs of one length: ``texts`` is uint8, shape (n, length)."""
    n, length = texts.shape
    return Programs(texts.ravel(), np.arange(n + 1, dtype=np.int64) * length)


@numba.njit(cache=True, nogil=True)
def _draw_between(
    random: np.ndarray, values: np.ndarray, smallest: int, below: np.ndarray
) -> np.ndarray:  # pragma: no cover - compiled
    """A number from ``below[v]`` to ``below[v + 1] - 1`` for each value, -1 where there is none."""
    numbers = np.full(len(values), -1, np.int64)
    for i in range(len(values)):
        place = values[i] - smallest
        if 0 <= place < len(below) - 1 and below[place] < below[place + 1]:
            numbers[i] = below[place] + int(random[i] * (below[place + 1] - below[place]))
    return numbers


@numba.njit(cache=True, nogil=True)
def _gather(texts: np.ndarray, rows: np.ndarray) -> np.ndarray:  # pragma: no cover - compiled
    result = np.empty((len(rows), texts.shape[1]), np.uint8)
    for i in range(len(rows)):
        for k in range(texts.shape[1]):
            result[i, k] = texts[rows[i], k]
    return result
