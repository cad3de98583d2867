"""All number expressions of 1, 3, 5 and 7 instructions, by value.

An expression is made of digits and arithmetic operators and leaves one number.  The paper's number
comparison is drawn from "all possible five instruction programs to compute a single value": three digits
and two operators, in the shapes ``ddodo`` and ``dddoo``.

Up to five instructions they are enumerated once and executed.  Those of seven, 17 million with all
operators, are two shorter ones and an operator; which values come together is enumerated instead.
"""

import functools
from dataclasses import dataclass

import numpy as np

from cadmus.config import OPERATORS
from cadmus.programs import Programs, join, stack
from cadmus.vm import compiled

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
        start, stop = self._span(values)
        return stop - start

    def _draw(self, rng: np.random.Generator, values: np.ndarray) -> np.ndarray:
        """The number of an expression for each of ``values``, uniformly among those that have the value."""
        start, stop = self._span(values)
        if np.any(start == stop):
            raise ValueError(f"no expression has the value {values[start == stop][0]}")
        return rng.integers(start, stop)

    def _span(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        smallest = self.extent[0]
        last = len(self._below) - 1
        places = (np.clip(values - smallest + above, 0, last) for above in (0, 1))
        return tuple(self._below[place] for place in places)

    @functools.cached_property
    def _below(self) -> np.ndarray:
        """How many expressions have a smaller value, for each value from the smallest to the next."""
        smallest, largest = self.extent
        return self.before[np.searchsorted(self.values, np.arange(smallest, largest + 2))]


@dataclass(frozen=True)
class Expressions(_ByValue):
    """The expressions of one length that have a value, in the order of their values.

    Attributes:
        programs: the n expressions.
        values: int64, shape (n,), ascending.
        enumerated: expressions of this length, those that are NAN included.
    """

    programs: Programs
    values: np.ndarray
    enumerated: int

    @functools.cached_property
    def before(self) -> np.ndarray:
        """int64, shape (n + 1,), the numbers from 0 to n."""
        return np.arange(len(self.values) + 1)

    def sample(self, rng: np.random.Generator, values: np.ndarray) -> Programs:
        """An expression for each of ``values``, uniformly among those that have the value.

        Raises:
            ValueError: one of the values has no expression of this length.
        """
        return self.programs.take(self._draw(rng, values))


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
        pieces, order = [], []
        for left_length in range(1, self.length - 1, 2):
            rows = np.flatnonzero(self.left_length[drawn] == left_length)
            of = drawn[rows]
            left = expressions(left_length, self.operators).sample(rng, self.left[of])
            right = expressions(self.length - 1 - left_length, self.operators).sample(rng, self.right[of])
            pieces.append(join(left, right, self.operator[of]))
            order.append(rows)
        return stack(pieces).take(np.argsort(np.concatenate(order)))


@functools.cache
def expressions(length: int, operators: str = OPERATORS) -> Expressions | Composed:
    """The expressions of ``length`` instructions (1, 3, 5 or 7) made of digits and ``operators``."""
    if length not in SHAPES:
        return _compose(length, operators)
    texts = np.concatenate([_enumerate(shape, operators) for shape in SHAPES[length]])
    programs = Programs(texts.ravel(), np.arange(len(texts) + 1, dtype=np.int64) * length)
    outcome = compiled.execute(programs)
    rows = np.flatnonzero(outcome.kind == compiled.NUMBER)
    values = outcome.values[rows, 0].astype(np.int64)
    order = np.argsort(values, kind="stable")
    return Expressions(programs.take(rows[order]), values[order], len(programs))


def _enumerate(shape: str, operators: str) -> np.ndarray:
    """Every expression of a shape: uint8, shape (expressions, instructions)."""
    alphabet = {"d": DIGITS, "o": np.frombuffer(operators.encode(), np.uint8)}
    axes = np.meshgrid(*(alphabet[place] for place in shape), indexing="ij")
    return np.stack([axis.ravel() for axis in axes], axis=1)


def _compose(length: int, operators: str) -> Composed:
    """Every pair of values of shorter expressions under every operator, one example of each executed."""
    columns = []
    for left_length in range(1, length - 1, 2):
        tables = expressions(left_length, operators), expressions(length - 1 - left_length, operators)
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
            rows = np.flatnonzero(outcome.kind == compiled.NUMBER)
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
    *parts, weights = (np.concatenate(column) for column in zip(*columns, strict=True))
    order = np.argsort(parts[0], kind="stable")
    before = np.concatenate([[0], np.cumsum(weights[order])])
    return Composed(*(part[order] for part in parts), before, length, operators)
