"""All number expressions of 1, 3 and 5 instructions, by value.

An expression is made of digits and the seven arithmetic operators and leaves one number.  The paper's
number comparison is drawn from "all possible five instruction programs to compute a single value": three
digits and two operators, in the shapes ``ddodo`` and ``dddoo``.
"""

import functools
from dataclasses import dataclass

import numpy as np

from cadmus.programs import Programs
from cadmus.vm import compiled

DIGITS = np.frombuffer(b"0123456789", np.uint8)
OPERATORS = np.frombuffer(b"+-*/%xn", np.uint8)
SHAPES = {1: ("d",), 3: ("ddo",), 5: ("ddodo", "dddoo")}
"""Where the digits (d) and the operators (o) stand, by the number of instructions."""


@dataclass(frozen=True)
class Expressions:
    """The expressions of one length that have a value, in the order of their values.

    Attributes:
        programs: the n expressions.
        values: int64, shape (n,), ascending.
        enumerated: expressions of this length, those that are NAN included.
    """

    programs: Programs
    values: np.ndarray
    enumerated: int

    def count(self, values: np.ndarray) -> np.ndarray:
        """How many expressions have each of ``values``: int64, of the same shape."""
        return self._stop(values) - self._start(values)

    def sample(self, rng: np.random.Generator, values: np.ndarray) -> Programs:
        """An expression for each of ``values``, uniformly among those that have the value.

        Raises:
            ValueError: one of the values has no expression of this length.
        """
        start, stop = self._start(values), self._stop(values)
        if np.any(start == stop):
            raise ValueError(f"no expression has the value {values[start == stop][0]}")
        return self.programs.take(rng.integers(start, stop))

    def _start(self, values: np.ndarray) -> np.ndarray:
        return self._first[self._place(values)]

    def _stop(self, values: np.ndarray) -> np.ndarray:
        return self._first[self._place(values) + 1]

    @functools.cached_property
    def _first(self) -> np.ndarray:
        """Where the expressions of each value begin, from one below the smallest to two above the largest."""
        return np.searchsorted(self.values, np.arange(self.values[0] - 1, self.values[-1] + 3))

    def _place(self, values: np.ndarray) -> np.ndarray:
        """The row of ``_first`` for each value; values out of reach get one that holds no expression."""
        return np.clip(values, self.values[0] - 1, self.values[-1] + 1) - (self.values[0] - 1)


@functools.cache
def expressions(length: int) -> Expressions:
    """All expressions of ``length`` instructions (1, 3 or 5), enumerated once and executed."""
    texts = np.concatenate([_enumerate(shape) for shape in SHAPES[length]])
    programs = Programs(texts.ravel(), np.arange(len(texts) + 1, dtype=np.int64) * length)
    outcome = compiled.execute(programs)
    rows = np.flatnonzero(outcome.kind == compiled.NUMBER)
    values = outcome.values[rows, 0].astype(np.int64)
    order = np.argsort(values, kind="stable")
    return Expressions(programs.take(rows[order]), values[order], len(programs))


def _enumerate(shape: str) -> np.ndarray:
    """Every expression of a shape: uint8, shape (expressions, instructions)."""
    alphabets = [DIGITS if place == "d" else OPERATORS for place in shape]
    return np.stack([axis.ravel() for axis in np.meshgrid(*alphabets, indexing="ij")], axis=1)
