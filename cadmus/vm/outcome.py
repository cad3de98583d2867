"""The result of running a batch of programs on the compiled VM."""

from typing import NamedTuple

import numpy as np

NAN, NUMBER, SEQUENCE = 0, 1, 2
"""Kinds of value."""


class Outcome(NamedTuple):
    """Verdicts and top outputs of n programs.

    Attributes:
        true: bool, shape (n,), whether the program is true.
        count: int32, shape (n,), number of outputs.
        kind: uint8, shape (n,), NAN, NUMBER or SEQUENCE: the kind of the top output, NAN without outputs.
        length: uint8, shape (n,), elements of the top output if it is a sequence, else 0.
        values: int32, shape (n, 16), its elements, zero-padded; a number has one element.
        decorations: uint8, shape (n, 16), their decorations, zero-padded.
    """

    true: np.ndarray
    count: np.ndarray  # type: ignore[assignment]  # shadows tuple.count
    kind: np.ndarray
    length: np.ndarray
    values: np.ndarray
    decorations: np.ndarray
