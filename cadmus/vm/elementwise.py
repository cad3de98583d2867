"""Element-wise instructions of the compiled VM: arithmetic, comparison, logic, unary, decorations."""

import numpy as np

from cadmus import isa
from cadmus.vm import opcodes as op
from cadmus.vm.jit import jit
from cadmus.vm.values import DECORATION_BITS, DECORATION_MASK, NAN, NUMBER, SEQUENCE, integer

INVALID = 2**62
"""The result of :func:`on_numbers` for NAN; no element has this value."""


@jit
def on_numbers(opcode: int, left: int, right: int) -> int:
    """Return the element that an instruction gives for two elements, or for ``left``; INVALID for NAN."""
    a, b = integer(left), integer(right)
    c = a
    if opcode == op.ADD:
        c = a + b
    elif opcode == op.SUBTRACT:
        c = a - b
    elif opcode == op.MULTIPLY:
        c = a * b
    elif opcode == op.DIVIDE:
        if b == 0:
            return INVALID
        c = a // b
    elif opcode == op.MODULO:
        if b == 0:
            return INVALID
        c = a % b
    elif opcode == op.MAXIMUM:
        c = max(a, b)
    elif opcode == op.MINIMUM:
        c = min(a, b)
    elif opcode == op.LESS:
        c = int(a < b)
    elif opcode == op.GREATER:
        c = int(a > b)
    elif opcode == op.EQUAL:
        c = int(a == b)
    elif opcode == op.AND:
        c = int((a != 0) & (b != 0))
    elif opcode == op.OR:
        c = int((a != 0) | (b != 0))
    elif opcode == op.NOT:
        c = int(a == 0)
    elif opcode == op.TRUTH:
        c = int(a != 0)
    elif opcode == op.SUCCESSOR:
        c = a + 1
    elif opcode == op.HALVE:
        c = a >> 1
    elif opcode == op.NEGATE:
        c = -a
    elif opcode == op.ABSOLUTE:
        c = abs(a)
    elif opcode == op.EVEN:
        c = 1 - (a & 1)
    elif opcode == op.GET_DECORATION:
        c = left & DECORATION_MASK
    elif opcode == op.DECORATE:
        return (a << DECORATION_BITS) | b if 0 <= b <= isa.MAX_DECORATION else INVALID
    return c << DECORATION_BITS if isa.INTEGER_MIN <= c <= isa.INTEGER_MAX else INVALID


@jit
def on_values(opcode: int, stack: np.ndarray, left: int, right: int) -> None:
    """Apply an instruction to sequences of equal length; a number broadcasts.

    ``left`` and ``right`` are slots, the same for a unary instruction; the result replaces ``left``.
    """
    left_shape, right_shape = stack[left, 0], stack[right, 0]
    if left_shape == NUMBER:
        shape = right_shape
    elif right_shape in (NUMBER, left_shape):
        shape = left_shape
    else:
        stack[left, 0] = NAN
        return
    left_step, right_step = left_shape != NUMBER, right_shape != NUMBER
    elements = 1 if shape == NUMBER else shape - SEQUENCE
    stack[left, 0] = shape
    # Backwards: result 0 overwrites the left number that broadcasts.
    for i in range(elements - 1, -1, -1):
        word = on_numbers(opcode, stack[left, 1 + i * left_step], stack[right, 1 + i * right_step])
        if word == INVALID:
            stack[left, 0] = NAN
            return
        stack[left, 1 + i] = word
