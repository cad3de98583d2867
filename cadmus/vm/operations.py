"""Instructions of the compiled VM: element-wise (arithmetic, logic, decorations …), and on sequences."""

import numpy as np

from cadmus import isa
from cadmus.vm import opcodes as op
from cadmus.vm.jit import jit
from cadmus.vm.values import (
    DECORATION_BITS,
    DECORATION_MASK,
    NAN,
    NUMBER,
    SEQUENCE,
    integer,
    put_integer,
    put_number,
)

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
        c = a // b if b != 0 else INVALID
    elif opcode == op.MODULO:
        c = a % b if b != 0 else INVALID
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


@jit
def on_sequences(opcode: int, stack: np.ndarray, slot: int) -> None:
    """Execute a sequence instruction; ``slot`` has the first input and receives the result."""
    second = slot + 1
    length, added = stack[slot, 0] - SEQUENCE, stack[second, 0] - SEQUENCE
    limit, position = integer(stack[slot, 1]), integer(stack[second, 1])
    if opcode == op.IDENTICAL:
        same = added == length
        # A number has length -1.
        for i in range(abs(length)):
            same &= stack[slot, 1 + i] == stack[second, 1 + i]
        put_integer(stack, slot, int(same))
    elif opcode == op.RANGE and stack[slot, 0] == NUMBER and limit <= isa.MAX_SEQUENCE_LENGTH:
        length = max(limit, 0)
        stack[slot, 0] = SEQUENCE + length
        for i in range(length):
            stack[slot, 1 + i] = i << DECORATION_BITS
    elif length < 0:
        stack[slot, 0] = NAN
    elif opcode == op.APPEND and stack[second, 0] == NUMBER and length < isa.MAX_SEQUENCE_LENGTH:
        stack[slot, 1 + length] = stack[second, 1]
        stack[slot, 0] += 1
    elif opcode == op.INDEX and stack[second, 0] == NUMBER and -length <= position < length:
        put_number(stack, slot, stack[slot, 1 + (position + length if position < 0 else position)])
    elif opcode == op.CONCATENATE and 0 <= added <= isa.MAX_SEQUENCE_LENGTH - length:
        for i in range(added):
            stack[slot, 1 + length + i] = stack[second, 1 + i]
        stack[slot, 0] += added
    elif opcode == op.KEEP and added == length:
        kept = 0
        for i in range(length):
            if integer(stack[second, 1 + i]) != 0:
                stack[slot, 1 + kept] = stack[slot, 1 + i]
                kept += 1
        stack[slot, 0] = SEQUENCE + kept
    elif opcode == op.LENGTH:
        put_integer(stack, slot, length)
    elif opcode == op.SUM:
        total = 0
        for i in range(length):
            total += integer(stack[slot, 1 + i])
        put_integer(stack, slot, total)
    elif opcode == op.ALL:
        nonzero = 0
        for i in range(length):
            nonzero += integer(stack[slot, 1 + i]) != 0
        put_integer(stack, slot, int(nonzero == length))
    elif opcode in (op.LARGEST, op.SMALLEST) and length > 0:
        sign = 1 if opcode == op.LARGEST else -1
        best = stack[slot, 1]
        for i in range(1, length):
            if sign * integer(stack[slot, 1 + i]) > sign * integer(best):
                best = stack[slot, 1 + i]
        put_number(stack, slot, best)
    elif opcode == op.SORT:
        _sort(stack, slot, length)
    elif opcode == op.REVERSE:
        for i in range(length // 2):
            first, last = stack[slot, 1 + i], stack[slot, length - i]
            stack[slot, 1 + i], stack[slot, length - i] = last, first
    else:
        stack[slot, 0] = NAN


@jit
def _sort(stack: np.ndarray, slot: int, length: int) -> None:
    """Insertion sort by value: stable, and fast on 16 elements."""
    for i in range(1, length):
        word = stack[slot, 1 + i]
        k = i
        while k > 0 and integer(stack[slot, k]) > integer(word):
            stack[slot, 1 + k] = stack[slot, k]
            k -= 1
        stack[slot, 1 + k] = word
