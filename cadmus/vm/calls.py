"""Calls of the compiled VM: subroutine calls, recursion, map, filter and fold.

A call runs in place. Its arguments are on top of the caller's stack, so its own stack begins with the first
of them, and its result stays there.
"""

import numpy as np

from cadmus.vm import opcodes as op
from cadmus.vm.jit import jit
from cadmus.vm.opcodes import BODY, INPUTS, TOP_LEVEL
from cadmus.vm.values import NAN, NUMBER, SEQUENCE, copy, is_true, put_number


class Frame:
    """An instruction whose calls are running."""

    opcode: int
    # Slot of its result.
    result: int
    # Calls finished and calls in all; both -1 once the result is NAN.
    done: int
    calls: int
    # Row of the body that it calls.
    body: int
    # Slot of the first argument and slot above the last one.
    call_base: int
    call_top: int
    # The place at which the body of the instruction continues.
    return_position: int
    return_stop: int
    return_base: int


FRAME = np.dtype((np.record, [(name, np.int64) for name in Frame.__annotations__]))
"""A :class:`Frame` as an element of an array."""


@jit
def begin(frame: Frame, caller_body: int, opcode: int, stack: np.ndarray, bottom: int) -> None:
    """Set up the frame of a calling instruction; the result will replace its first input, in slot ``bottom``.

    ``caller_body`` is the row of the body that contains the instruction.
    """
    frame.opcode = opcode
    frame.result = bottom
    frame.done = 0
    frame.body = BODY[opcode]
    if opcode in (op.MAP, op.FILTER, op.FOLD):
        # Results overwrite elements already read. The accumulator of a fold is above the sequence, where its
        # calls begin.
        frame.call_base = bottom + 1
        frame.call_top = bottom + 1 + INPUTS[opcode]
        if stack[bottom, 0] >= SEQUENCE:
            frame.calls = stack[bottom, 0] - SEQUENCE
            stack[bottom, 0] = SEQUENCE
        else:
            _fail(frame, stack)
    else:
        frame.calls = 1
        frame.call_base = bottom
        frame.call_top = bottom + INPUTS[opcode]
        if opcode == op.RECUR:
            frame.call_top = bottom + 1
            frame.body = caller_body
            if not is_true(stack, bottom + 1):
                frame.calls = 0
            elif caller_body == TOP_LEVEL:
                _fail(frame, stack)


@jit
def _fail(frame: Frame, stack: np.ndarray) -> None:
    """Make NAN the result of the instruction and skip its remaining calls."""
    stack[frame.result, 0] = NAN
    frame.done = frame.calls = -1


@jit
def prepare(frame: Frame, stack: np.ndarray, bodies: np.ndarray, exhausted: bool) -> bool:
    """Put the arguments of the next call in place; return False after the last one, when the result is.

    ``exhausted`` tells that the depth or the budget allows no further call.
    """
    if frame.done == frame.calls:
        if frame.opcode == op.FOLD and frame.done >= 0:
            copy(stack, frame.result + 1, frame.result)
        return False
    if exhausted or bodies[frame.body, 0] < 0:
        _fail(frame, stack)
        return False
    if frame.opcode in (op.MAP, op.FILTER, op.FOLD):
        put_number(stack, frame.call_top - 1, stack[frame.result, 1 + frame.done])
    return True


@jit
def finish(frame: Frame, stack: np.ndarray, slot: int) -> None:
    """Use the value that a call left in ``slot``."""
    opcode, result, element = frame.opcode, frame.result, frame.done
    frame.done += 1
    if stack[slot, 0] == NAN or (opcode == op.MAP and stack[slot, 0] != NUMBER):
        _fail(frame, stack)
    elif opcode in (op.MAP, op.FILTER):
        if opcode == op.MAP or is_true(stack, slot):
            kept = stack[result, 0] - SEQUENCE
            stack[result, 1 + kept] = stack[slot, 1] if opcode == op.MAP else stack[result, 1 + element]
            stack[result, 0] += 1
    else:
        copy(stack, slot, frame.call_base)
