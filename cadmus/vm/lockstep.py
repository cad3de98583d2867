"""Number programs in lock step: 64 programs at a time, each step one instruction of all of them.

A *number program* has only integer literals, arithmetic, comparison, logic and unary instructions. Its values
are integers without decoration and NAN, so a float64 holds a value: integers exactly, NAN as NaN. Each
program is a lane of a vector. The loop over the lanes computes every instruction without a branch and selects
the result asked for, so the compiler vectorizes it. The stack height, which differs between lanes, has a loop
of its own.

Why float64 gives the integer results: sums and differences of 32-bit integers are exact. A product is exact
up to 2^53, and rounding brings no larger one back into range. A quotient a/b that is not an integer is at
least 1/|b| from the nearest integer, and |a/b| < 2^32 / |b| bounds its rounding error by 2^-21 / |b|, so its
floor is right; b · floor(a/b) is then below 2^33 and exact. A zero divisor gives an infinite or NaN quotient.
Both are out of range, like every result with a NaN in it.
"""

import numpy as np

from cadmus import isa
from cadmus.vm import opcodes as op
from cadmus.vm.jit import jit
from cadmus.vm.outcome import NAN, NUMBER, Outcome

LONGEST = np.iinfo(np.uint8).max
"""Longer programs run in the kernel: lengths are bytes here, and the stack stays small."""
_LANES = 64
_BASE = 2  # slots below the first value, always NaN: read when inputs are missing

_GROUPS = ("literals", "arithmetic", "comparison and logic", "unary")
ALLOWED = np.zeros(256, np.bool_)
"""Opcodes of number programs."""
ALLOWED[[ord(row.symbol) for row in isa.INSTRUCTIONS if row.group in _GROUPS and row.name != "empty"]] = True

_PUSHED = np.where(op.PUSHED_KIND == NUMBER, op.PUSHED, np.nan)
_INPUTS = op.INPUTS.copy()
_INPUTS[op.END] = 1  # a program that has ended keeps its top


def run(
    data: np.ndarray,
    offsets: np.ndarray,
    programs: np.ndarray,
    lengths: np.ndarray,
    rows: np.ndarray,
    outcome: Outcome,
) -> None:
    """Execute number programs.

    Args:
        data, offsets: the batch, read-only.
        programs: int64, indices of the programs to run, all of them number programs.
        lengths: uint8, shape of ``programs``, instructions of each, at least 1.
        rows: as in :func:`cadmus.vm.kernel.run_batch`.
        outcome: filled in for these programs.
    """
    # Programs that run together take as many steps as the longest of them.
    order = np.argsort(lengths, kind="stable")
    _run(data, offsets, programs[order], lengths[order].astype(np.int64), rows, outcome)


@jit
def _run(
    data: np.ndarray,
    offsets: np.ndarray,
    programs: np.ndarray,
    lengths: np.ndarray,
    rows: np.ndarray,
    outcome: Outcome,
) -> None:
    # Taking an array out of a tuple counts a reference, which is slow.
    true, count, kind, values = outcome.true, outcome.count, outcome.kind, outcome.values
    longest = lengths[-1]
    code = np.empty((longest, _LANES), np.uint8)
    stack = np.empty((_BASE + longest, _LANES))
    pushed, left = np.empty(_LANES), np.empty(_LANES)
    all_true = np.empty(_LANES, np.bool_)
    # The top of each stack and its slot. The top is written to the stack when another value is pushed.
    slot, top = np.empty(_LANES, np.int64), np.empty(_LANES)
    for first in range(0, len(programs), _LANES):
        lanes = min(_LANES, len(programs) - first)
        steps = lengths[first + lanes - 1]
        has_unary = _transpose(data, offsets, programs, lengths, first, lanes, steps, code)
        stack[:_BASE], slot[:], top[:] = np.nan, _BASE - 1, np.nan
        for step in range(steps):
            _move(code[step], stack, slot, top, left, pushed)
            if has_unary:
                _unary(code[step], top)
            _binary(code[step], pushed, left, top)
        for lane in range(_LANES):
            stack[slot[lane], lane] = top[lane]
        _all_true(stack, slot, steps, all_true)
        for lane in range(lanes):
            i = programs[first + lane]
            true[i] = all_true[lane]
            count[i] = slot[lane] - _BASE + 1
            wanted = min(rows[i + 1] - rows[i], count[i])
            for k in range(wanted):
                value = stack[slot[lane] + 1 - wanted + k, lane]
                if value == value:
                    kind[rows[i] + k] = NUMBER
                    values[rows[i] + k, 0] = np.int32(value)
                else:
                    kind[rows[i] + k] = NAN


@jit
def _transpose(
    data: np.ndarray,
    offsets: np.ndarray,
    programs: np.ndarray,
    lengths: np.ndarray,
    first: int,
    lanes: int,
    steps: int,
    code: np.ndarray,
) -> bool:
    """Write each program to a lane of ``code``, padded with ends; return whether one is unary."""
    has_unary = False
    for lane in range(_LANES):
        length = 0
        if lane < lanes:
            start, length = offsets[programs[first + lane]], lengths[first + lane]
            for step in range(length):
                opcode = data[start + step]
                code[step, lane] = opcode
                has_unary |= _INPUTS[opcode] == 1
        for step in range(length, steps):
            code[step, lane] = op.END
    return has_unary


@jit
def _move(
    code: np.ndarray,
    stack: np.ndarray,
    slot: np.ndarray,
    top: np.ndarray,
    left: np.ndarray,
    pushed: np.ndarray,
) -> None:
    """Fetch the inputs (``left`` is the one below the top) and move the stack to its next height."""
    for lane in range(_LANES):
        opcode, here = code[lane], slot[lane]
        stack[here, lane] = top[lane]
        left[lane] = stack[here - 1, lane]
        pushed[lane] = _PUSHED[opcode]
        # Each instruction has one output, even if inputs are missing.
        slot[lane] = max(here + 1 - _INPUTS[opcode], _BASE)


@jit
def _unary(code: np.ndarray, top: np.ndarray) -> None:
    """Execute unary instructions; all others keep the top."""
    for lane in range(_LANES):
        opcode, a = code[lane], top[lane]
        half = np.floor(a / 2)
        is_one = (opcode == op.NOT) & (a == 0)
        is_one |= (opcode == op.TRUTH) & (a != 0)
        is_one |= (opcode == op.EVEN) & (half + half == a)
        c = a
        c = (1.0 if is_one else 0.0) if (opcode == op.NOT) | (opcode == op.TRUTH) | (opcode == op.EVEN) else c
        c = a + 1 if opcode == op.SUCCESSOR else c
        c = half if opcode == op.HALVE else c
        c = -a if opcode == op.NEGATE else c
        c = abs(a) if opcode == op.ABSOLUTE else c
        top[lane] = c if a == a else a


@jit
def _binary(code: np.ndarray, pushed: np.ndarray, left: np.ndarray, top: np.ndarray) -> None:
    """Execute literals and binary instructions; all others keep the top.

    A result out of range is NaN, and so is any result of a NaN top. A NaN left input makes the result NaN in
    each instruction separately, because unary instructions ignore it.
    """
    low, high = float(isa.INTEGER_MIN), float(isa.INTEGER_MAX)
    for lane in range(_LANES):
        opcode, a, b = code[lane], left[lane], top[lane]
        quotient = np.floor(a / b)
        is_one = (opcode == op.LESS) & (a < b)
        is_one |= (opcode == op.GREATER) & (a > b)
        is_one |= (opcode == op.EQUAL) & (a == b)
        is_one |= (opcode == op.AND) & (a != 0) & (b != 0)
        is_one |= (opcode == op.OR) & ((a != 0) | (b != 0))
        is_truth = (opcode == op.LESS) | (opcode == op.GREATER) | (opcode == op.EQUAL)
        is_truth |= (opcode == op.AND) | (opcode == op.OR)
        c = b
        c = (1.0 if is_one & (a == a) else a * 0) if is_truth else c
        c = a + b if opcode == op.ADD else c
        c = a - b if opcode == op.SUBTRACT else c
        c = a * b if opcode == op.MULTIPLY else c
        c = quotient if opcode == op.DIVIDE else c
        c = a - b * quotient if opcode == op.MODULO else c
        c = (a if (a > b) | (a != a) else b) if opcode == op.MAXIMUM else c
        c = (a if (a < b) | (a != a) else b) if opcode == op.MINIMUM else c
        c = c if (b == b) & (low <= c) & (c <= high) else np.nan
        top[lane] = pushed[lane] if pushed[lane] == pushed[lane] else c


@jit
def _all_true(stack: np.ndarray, slot: np.ndarray, steps: int, all_true: np.ndarray) -> None:
    """Set whether no value of a lane is 0 or NaN; every lane has at least one value."""
    all_true[:] = True
    for height in range(_BASE, _BASE + steps):
        for lane in range(_LANES):
            value = stack[height, lane]
            all_true[lane] &= (height > slot[lane]) | (value * value > 0)
