"""What the compiled machine says of a batch of programs."""

from typing import NamedTuple

import numpy as np

from cadmus import isa

NAN, NUMBER, SEQUENCE = 0, 1, 2
"""Kinds of value."""


class Outcome(NamedTuple):
    """What n programs leave.

    Attributes:
        true: bool, shape (n,), whether the program is true.
        count: int32, shape (n,), number of outputs.
        kind: uint8, shape (n,), NAN, NUMBER or SEQUENCE: the kind of the top output, NAN without outputs.
        length: uint8, shape (n,), elements of the top output if that is a sequence, else 0.
        values: int32, shape (n, 16), its elements; a number has one.  What is unused is 0.
        decorations: uint8, shape (n, 16), their decorations.
    """

    true: np.ndarray
    count: np.ndarray  # type: ignore[assignment]  # hides tuple.count, which is not wanted
    kind: np.ndarray
    length: np.ndarray
    values: np.ndarray
    decorations: np.ndarray


def empty_outcome(n: int, rows: int) -> Outcome:
    """The outcome of ``n`` programs to be filled in, with ``rows`` rows, all 0, in the last four fields."""
    return Outcome(
        true=np.empty(n, np.bool_),
        count=np.empty(n, np.int32),
        kind=np.zeros(rows, np.uint8),
        length=np.zeros(rows, np.uint8),
        values=np.zeros((rows, isa.MAX_SEQUENCE_LENGTH), np.int32),
        decorations=np.zeros((rows, isa.MAX_SEQUENCE_LENGTH), np.uint8),
    )
