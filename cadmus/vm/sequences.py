"""Sequence instructions of the compiled VM."""

import numpy as np

from cadmus import isa
from cadmus.vm import opcodes as op
from cadmus.vm.jit import jit
from cadmus.vm.values import DECORATION_BITS, NAN, NUMBER, SEQUENCE, integer, put_integer, put_number


@jit
def on_sequences(opcode: int, stack: np.ndarray, slot: int) -> None:
    """Execute a sequence instruction; ``slot`` has the first input and receives the result."""
    second = slot + 1
    length = stack[slot, 0] - SEQUENCE
    if opcode == op.IDENTICAL:
        put_integer(stack, slot, _identical(stack, slot, second))
    elif opcode == op.RANGE:
        _range(stack, slot)
    elif length < 0:
        stack[slot, 0] = NAN
    elif opcode == op.APPEND:
        if stack[second, 0] == NUMBER and length < isa.MAX_SEQUENCE_LENGTH:
            stack[slot, 1 + length] = stack[second, 1]
            stack[slot, 0] += 1
        else:
            stack[slot, 0] = NAN
    elif opcode == op.INDEX:
        _index(stack, slot, second, length)
    elif opcode == op.CONCATENATE:
        _concatenate(stack, slot, second, length)
    elif opcode == op.KEEP:
        _keep(stack, slot, second, length)
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
    elif opcode in (op.LARGEST, op.SMALLEST):
        _extreme(stack, slot, length, 1 if opcode == op.LARGEST else -1)
    elif opcode == op.SORT:
        _sort(stack, slot, length)
    elif opcode == op.REVERSE:
        for i in range(length // 2):
            first, last = stack[slot, 1 + i], stack[slot, length - i]
            stack[slot, 1 + i], stack[slot, length - i] = last, first


@jit
def _identical(stack: np.ndarray, slot: int, second: int) -> int:
    shape = stack[slot, 0]
    if stack[second, 0] != shape:
        return 0
    for i in range(1 if shape == NUMBER else shape - SEQUENCE):
        if stack[slot, 1 + i] != stack[second, 1 + i]:
            return 0
    return 1


@jit
def _range(stack: np.ndarray, slot: int) -> None:
    length = max(integer(stack[slot, 1]), 0)
    if stack[slot, 0] != NUMBER or length > isa.MAX_SEQUENCE_LENGTH:
        stack[slot, 0] = NAN
        return
    stack[slot, 0] = SEQUENCE + length
    for i in range(length):
        stack[slot, 1 + i] = i << DECORATION_BITS


@jit
def _index(stack: np.ndarray, slot: int, second: int, length: int) -> None:
    position = integer(stack[second, 1])
    if stack[second, 0] != NUMBER or position < -length or position >= length:
        stack[slot, 0] = NAN
    else:
        put_number(stack, slot, stack[slot, 1 + (position + length if position < 0 else position)])


@jit
def _concatenate(stack: np.ndarray, slot: int, second: int, length: int) -> None:
    added = stack[second, 0] - SEQUENCE
    if added < 0 or length + added > isa.MAX_SEQUENCE_LENGTH:
        stack[slot, 0] = NAN
        return
    for i in range(added):
        stack[slot, 1 + length + i] = stack[second, 1 + i]
    stack[slot, 0] += added


@jit
def _keep(stack: np.ndarray, slot: int, second: int, length: int) -> None:
    if stack[second, 0] != stack[slot, 0]:
        stack[slot, 0] = NAN
        return
    kept = 0
    for i in range(length):
        if integer(stack[second, 1 + i]) != 0:
            stack[slot, 1 + kept] = stack[slot, 1 + i]
            kept += 1
    stack[slot, 0] = SEQUENCE + kept


@jit
def _extreme(stack: np.ndarray, slot: int, length: int, sign: int) -> None:
    """Find the first of the largest elements (``sign`` 1) or of the smallest (-1)."""
    if length == 0:
        stack[slot, 0] = NAN
        return
    best = stack[slot, 1]
    for i in range(1, length):
        if sign * integer(stack[slot, 1 + i]) > sign * integer(best):
            best = stack[slot, 1 + i]
    put_number(stack, slot, best)


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
