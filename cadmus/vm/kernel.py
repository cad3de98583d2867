"""The compiled VM's interpreter: the semantics of :mod:`cadmus.vm.reference`, one program after another."""

import numpy as np

from cadmus import isa
from cadmus.vm import calls
from cadmus.vm import opcodes as op
from cadmus.vm.jit import jit
from cadmus.vm.opcodes import BODIES, FAMILY, INPUTS, OUTPUTS, PUSHED, PUSHED_KIND, TOP_LEVEL
from cadmus.vm.operations import INVALID, on_numbers, on_sequences, on_values
from cadmus.vm.values import (
    DECORATION_BITS,
    NAN,
    NUMBER,
    SEQUENCE,
    Outcome,
    all_true,
    any_nan,
    copy,
    is_true,
    put_number,
    store,
)

_BASE = int(INPUTS.max())
"""Slot of the first value; the slots below are NAN and are read when inputs are missing."""

_INSTEAD = np.array(
    [
        *((NUMBER, value << DECORATION_BITS) for value in (0, 1)),
        (SEQUENCE, 0),
        *((SEQUENCE + 1, value << DECORATION_BITS) for value in (0, 1, 9)),
    ]
)
"""Shapes and first elements of values in place of others: numbers, and sequences of at most one element."""


@jit
def run_batch(data: np.ndarray, offsets: np.ndarray, rows: np.ndarray, outcome: Outcome) -> None:
    """Execute a batch of n programs and fill in ``outcome``.

    ``rows`` are int64 of shape (n + 1,): the last ``rows[i + 1] - rows[i]`` outputs of program i go to the
    rows from ``rows[i]`` of kind, length, values and decorations. Missing outputs stay NAN.
    """
    stack, code, bodies, frames = _memory(offsets)
    # Taking an array out of a tuple counts a reference, which is slow.
    true, count = outcome.true, outcome.count
    for i in range(len(offsets) - 1):
        _read(data, offsets[i], offsets[i + 1], code, bodies)
        top, _ = _run(stack, code, bodies, frames, _BASE)
        true[i] = all_true(stack, _BASE, top)
        count[i] = top - _BASE
        wanted = min(rows[i + 1] - rows[i], top - _BASE)
        for k in range(wanted):
            store(stack, top - wanted + k, outcome, rows[i] + k)


@jit
def count_executed(data: np.ndarray, offsets: np.ndarray, executed: np.ndarray) -> None:
    """Count the instructions that each of n programs executes: int64, shape (n,)."""
    stack, code, bodies, frames = _memory(offsets)
    for i in range(len(offsets) - 1):
        _read(data, offsets[i], offsets[i + 1], code, bodies)
        _, in_calls = _run(stack, code, bodies, frames, _BASE)
        # The top level always finishes.
        executed[i] = bodies[TOP_LEVEL, 1] + in_calls


@jit
def find_ignored(data: np.ndarray, offsets: np.ndarray, cuts: np.ndarray, ignored: np.ndarray) -> None:
    """Tell which of n true programs ignore a value that their first ``cuts[i]`` instructions leave.

    A value is ignored if with no other in its place the rest leaves other outputs without a NAN. ``ignored``
    is bool, shape (n,).
    """
    stack, code, bodies, frames = _memory(offsets)
    at_cut, outputs = np.empty_like(stack), np.empty_like(stack)
    for i in range(len(offsets) - 1):
        _read(data, offsets[i], offsets[i] + cuts[i], code, bodies)
        cut = bodies[TOP_LEVEL, 1]
        # Both parts have all definitions: each may call what the other defines.
        _read(data, offsets[i], offsets[i + 1], code, bodies)
        stop = bodies[TOP_LEVEL, 1]
        bodies[TOP_LEVEL, 1] = cut
        top, _ = _run(stack, code, bodies, frames, _BASE)
        _copy(stack, at_cut, top)
        bodies[TOP_LEVEL, 0], bodies[TOP_LEVEL, 1] = cut, stop
        end, _ = _run(stack, code, bodies, frames, top)
        _copy(stack, outputs, end)
        ignored[i] = False
        for slot in range(_BASE, top):
            changed = False
            tried = 0
            while not changed and tried < len(_INSTEAD) + top:
                _copy(at_cut, stack, top)
                if _replace(stack, slot, tried, at_cut):
                    _run(stack, code, bodies, frames, top)
                    changed = not any_nan(stack, _BASE, end) and not _same(stack, outputs, end)
                tried += 1
            ignored[i] |= not changed


@jit
def _copy(source: np.ndarray, target: np.ndarray, top: int) -> None:
    """Copy the slots below ``top``. Assigning a slice would take as long to compile as all the rest."""
    for slot in range(_BASE, top):
        for field in range(source.shape[1]):
            target[slot, field] = source[slot, field]


@jit
def _replace(stack: np.ndarray, slot: int, number: int, values: np.ndarray) -> bool:
    """Put another value into a slot and return True, or False if there is none of this number.

    A number becomes a number: 0, 1 or a value in ``values``. A sequence becomes any of :data:`_INSTEAD`.
    """
    is_sequence = stack[slot, 0] >= SEQUENCE
    if number < len(_INSTEAD):
        if not is_sequence and _INSTEAD[number, 0] >= SEQUENCE:
            return False
        stack[slot, :2] = _INSTEAD[number]
        return True
    other = number - len(_INSTEAD)
    if is_sequence or other < _BASE or values[other, 0] != NUMBER:
        return False
    put_number(stack, slot, values[other, 1])
    return True


@jit
def _same(stack: np.ndarray, outputs: np.ndarray, end: int) -> bool:
    """Return whether two stacks have the same values below the slot ``end``."""
    for slot in range(_BASE, end):
        shape = stack[slot, 0]
        if shape != outputs[slot, 0]:
            return False
        for k in range(1, 1 + (1 if shape == NUMBER else shape - SEQUENCE)):
            if stack[slot, k] != outputs[slot, k]:
                return False
    return True


@jit
def _memory(offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the stack, code, bodies and frames for programs."""
    longest = 0
    for i in range(len(offsets) - 1):
        longest = max(longest, offsets[i + 1] - offsets[i])
    # An instruction adds at most its outputs. A call for an element of a sequence adds that element. One slot
    # at the end is for moving values.
    slots = _BASE + OUTPUTS.max() * (longest + isa.CALL_BUDGET) + isa.MAX_CALL_DEPTH + 1
    stack = np.empty((slots, 1 + isa.MAX_SEQUENCE_LENGTH), np.int64)
    stack[:_BASE] = NAN
    # The top level and then the subroutines of one program, and where each body begins and ends in it.
    code = np.empty(2 * longest, np.uint8)
    # One more row takes the bodies that no instruction reaches.
    bodies = np.empty((BODIES + 1, 2), np.int64)
    frames = np.empty(isa.MAX_CALL_DEPTH + 1, calls.FRAME)
    return stack, code, bodies, frames


@jit
def _read(data: np.ndarray, start: int, stop: int, code: np.ndarray, bodies: np.ndarray) -> None:
    """Separate the top level from the definitions, as :func:`cadmus.isa.split_definitions` does."""
    bodies[:, 0] = -1  # not defined
    row = top = 0
    # The bodies follow the longest possible top level.
    body = len(code) // 2
    inside = False
    for i in range(start, stop):
        opcode = data[i]
        if opcode == op.END:
            break
        if opcode == op.DEFINE:
            if not inside:
                inside = True
                row = min(row + 1, BODIES)
                bodies[row] = body
        elif opcode == op.END_DEFINITION:
            inside = False
        elif inside:
            code[body] = opcode
            body += 1
            bodies[row, 1] = body
        else:
            code[top] = opcode
            top += 1
    bodies[TOP_LEVEL, 0] = 0
    bodies[TOP_LEVEL, 1] = top


@jit
def _run(
    stack: np.ndarray, code: np.ndarray, bodies: np.ndarray, frames: np.ndarray, top: int
) -> tuple[int, int]:
    """Execute the program that was read on the values below ``top``.

    Returns the slot above its outputs, and how many instructions were executed inside calls.
    """
    base = _BASE
    depth = executed_in_calls = 0
    position, stop = bodies[TOP_LEVEL]
    while True:
        start = position
        halt = stop if depth == 0 else min(stop, position + isa.CALL_BUDGET - executed_in_calls)
        position, top = _run_to_call(code, position, halt, stack, base, top)
        is_call = position < halt
        if depth > 0:
            executed_in_calls += position - start + is_call
        if is_call:
            frame = frames[depth]
            opcode = code[position]
            caller_body = frames[depth - 1].body if depth else TOP_LEVEL
            calls.begin(frame, caller_body, opcode, stack, top - INPUTS[opcode])
            frame.return_position, frame.return_stop, frame.return_base = position + 1, stop, base
        elif depth == 0:
            return top, executed_in_calls
        else:
            depth -= 1
            if position < stop or top == base:
                stack[base, 0] = NAN
                top = base + 1
            calls.finish(frames[depth], stack, top - 1)
        frame = frames[depth]
        exhausted = depth == isa.MAX_CALL_DEPTH or executed_in_calls >= isa.CALL_BUDGET
        if calls.prepare(frame, stack, bodies, exhausted):
            position, stop = bodies[frame.body]
            base, top = frame.call_base, frame.call_top
            depth += 1
        else:
            position, stop, base = frame.return_position, frame.return_stop, frame.return_base
            top = frame.result + 1


@jit
def _run_to_call(
    code: np.ndarray, position: int, halt: int, stack: np.ndarray, base: int, top: int
) -> tuple[int, int]:
    """Execute up to ``halt`` or a call with its inputs; return the position and the slot above the top."""
    while position < halt:
        opcode = code[position]
        family = FAMILY[opcode]
        if family == op.PUSH:
            stack[top, 0] = PUSHED_KIND[opcode]
            stack[top, 1] = PUSHED[opcode] << DECORATION_BITS
            top += 1
            position += 1
            continue
        bottom = top - INPUTS[opcode]
        if family == op.ELEMENTWISE:
            left_shape, right_shape = stack[bottom, 0], stack[top - 1, 0]
            if left_shape | right_shape <= NUMBER:
                # Numbers and NAN only. The branch predictor cannot foresee a NAN result, so this is
                # branchless.
                word = on_numbers(opcode, stack[bottom, 1], stack[top - 1, 1])
                is_number = (bottom >= base) & (left_shape & right_shape == NUMBER) & (word != INVALID)
                bottom = max(bottom, base)
                stack[bottom, 0] = NUMBER if is_number else NAN
                stack[bottom, 1] = word
                top = bottom + 1
                position += 1
                continue
        if bottom < base or any_nan(stack, bottom, top):
            bottom = max(bottom, base)
            for slot in range(bottom, bottom + OUTPUTS[opcode]):
                stack[slot, 0] = NAN
        elif family == op.ELEMENTWISE:
            on_values(opcode, stack, bottom, top - 1)
        elif family == op.STACK:
            _rearrange(opcode, stack, bottom, top)
        elif family == op.SEQUENCE_OPERATION:
            on_sequences(opcode, stack, bottom)
        else:
            return position, top
        top = bottom + OUTPUTS[opcode]
        position += 1
    return position, top


@jit
def _rearrange(opcode: int, stack: np.ndarray, bottom: int, top: int) -> None:
    """Execute an instruction that only moves values; the slot ``top`` is free."""
    if opcode in (op.DUPLICATE, op.OVER):
        copy(stack, bottom, top)
    elif opcode in (op.SWAP, op.ROTATE):
        copy(stack, bottom, top)
        for slot in range(bottom, top):
            copy(stack, slot + 1, slot)
    elif opcode == op.CHOOSE:
        copy(stack, bottom + 1 if is_true(stack, bottom) else bottom + 2, bottom)
