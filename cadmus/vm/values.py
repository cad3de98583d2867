"""Values on the stack of the compiled VM, and what it returns of them.

A stack is an int64 matrix with one value per row. Column 0 is the *shape* of the value: 0 for NAN, 1 for a
number, 2 + n for a sequence of n elements. The elements follow, each ``value * 256 + decoration``; a number
has one. A *slot* is a row of the stack.
"""

from typing import NamedTuple

import numpy as np

from cadmus import isa
from cadmus.vm.jit import jit

NAN, NUMBER, SEQUENCE = 0, 1, 2
"""Kinds of value."""
DECORATION_BITS = 8
DECORATION_MASK = (1 << DECORATION_BITS) - 1


class Outcome(NamedTuple):
    """Truth and top outputs of n programs."""

    true: np.ndarray
    """bool, shape (n,)"""
    count: np.ndarray  # type: ignore[assignment]  # shadows tuple.count
    """int32, shape (n,), number of outputs"""
    kind: np.ndarray
    """uint8, shape (n,), NAN, NUMBER or SEQUENCE: the kind of the top output, NAN without outputs"""
    length: np.ndarray
    """uint8, shape (n,), elements of the top output if it is a sequence, else 0"""
    values: np.ndarray
    decorations: np.ndarray
    """int32 and uint8, shape (n, 16), its elements, zero-padded; a number has one"""


@jit
def integer(word: int) -> int:
    """Return the integer in an element, without its decoration."""
    return word >> DECORATION_BITS


@jit
def is_true(stack: np.ndarray, slot: int) -> bool:
    shape = stack[slot, 0]
    return shape >= SEQUENCE or (shape == NUMBER and integer(stack[slot, 1]) != 0)


@jit
def any_nan(stack: np.ndarray, bottom: int, top: int) -> bool:
    found = False
    for slot in range(bottom, top):
        found |= stack[slot, 0] == NAN
    return found


@jit
def all_true(stack: np.ndarray, bottom: int, top: int) -> bool:
    """Return whether there is a value from ``bottom`` up to ``top``, exclusive, and all are true."""
    for slot in range(bottom, top):
        if not is_true(stack, slot):
            return False
    return top > bottom


@jit
def put_number(stack: np.ndarray, slot: int, word: int) -> None:
    stack[slot, 0] = NUMBER
    stack[slot, 1] = word


@jit
def put_integer(stack: np.ndarray, slot: int, value: int) -> None:
    """Write an integer without decoration, NAN if it is out of range."""
    stack[slot, 0] = NUMBER if isa.INTEGER_MIN <= value <= isa.INTEGER_MAX else NAN
    stack[slot, 1] = value << DECORATION_BITS


@jit
def copy(stack: np.ndarray, source: int, target: int) -> None:
    shape = stack[source, 0]
    stack[target, 0] = shape
    stack[target, 1] = stack[source, 1]
    for i in range(1, shape - SEQUENCE):
        stack[target, 1 + i] = stack[source, 1 + i]


@jit
def store(stack: np.ndarray, slot: int, outcome: Outcome, row: int) -> None:
    """Unpack a value into a row of the outcome that is all zeros."""
    values, decorations = outcome.values, outcome.decorations
    shape = stack[slot, 0]
    outcome.kind[row] = min(shape, SEQUENCE)
    outcome.length[row] = max(shape - SEQUENCE, 0)
    elements = 1 if shape == NUMBER else shape - SEQUENCE
    for i in range(elements):
        values[row, i] = integer(stack[slot, 1 + i])
        decorations[row, i] = stack[slot, 1 + i] & DECORATION_MASK
