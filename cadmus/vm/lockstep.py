"""Number programs in lock step: many at a time, each step one instruction of every one of them.

A *number program* consists of integer literals, arithmetic, comparison, logic and unary instructions.  It
holds nothing but integers without decoration and NAN, so a value is one float64, in which these integers are
exact, and NAN is the NaN of floating point.  The programs are the lanes of a vector: the loop over them has
no branch, computes every instruction and selects the result that is asked for, so that the compiler makes
vector instructions of it.  What differs from lane to lane, the height of the stack, is in a loop of its own.

Why float64 gives the results of integers: sums and differences of 32-bit integers are exact.  A product is
exact up to 2^53, and rounding brings none from beyond into the range of integers.  A quotient a/b that is no
integer is at least 1/|b| from the next one, and |a/b| < 2^32 / |b| bounds its rounding error by
2^-21 / |b|, so its floor is right; b · floor(a/b) is then below 2^33 and exact.  A zero divisor makes the
quotient infinite or NaN, and both are out of the range of integers, as is every result with a NaN in it.
"""

import numba
import numpy as np

from cadmus import isa
from cadmus.vm.outcome import NAN, NUMBER, Outcome

LONGEST = np.iinfo(np.uint8).max
"""Longer programs are not run here: their lengths are bytes, and the stack stays small."""
_LANES = 64
_BASE = 2  # the slots below the first value, always NAN: what an instruction finds that has no inputs

_GROUPS = ("literals", "arithmetic", "comparison and logic", "unary")
_END = ord(isa.END)
_ADD, _SUBTRACT, _MULTIPLY, _DIVIDE, _MODULO, _MAXIMUM, _MINIMUM = b"+-*/%xn"
_LESS, _GREATER, _EQUAL, _AND, _OR = b"<>=&|"
_NOT, _TRUTH, _SUCCESSOR, _HALVE, _NEGATE, _ABSOLUTE, _EVEN = b"!?'B~ae"

_compile = numba.njit(cache=True, nogil=True, error_model="numpy")


def _byte_tables() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each byte: whether it may stand in a number program (bool), its inputs (int64) and the integer that
    it pushes (float64, NaN when it pushes none)."""
    allowed, inputs, literal = np.zeros(256, np.bool_), np.zeros(256, np.int64), np.full(256, np.nan)
    for row in isa.INSTRUCTIONS:
        if row.group in _GROUPS and row.effect != "→ s":
            allowed[ord(row.symbol)] = True
            inputs[ord(row.symbol)] = row.inputs
            if row.group == "literals":
                literal[ord(row.symbol)] = int(row.effect.split()[-1])
    inputs[_END] = 1  # a program that has ended waits: its top stays as it is
    return allowed, inputs, literal


ALLOWED, _INPUTS, _LITERAL = _byte_tables()


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
        programs: int64, which programs of it to run; all of their instructions are in :data:`ALLOWED`.
        lengths: uint8, shape of ``programs``, instructions of each, at least 1.
        rows: as for the machine that runs the others, see :mod:`cadmus.vm.compiled`.
        outcome: filled in for these programs.
    """
    # Programs that run together take as many steps as the longest of them.
    order = np.argsort(lengths, kind="stable")
    lengths = lengths[order].astype(np.int64)
    limits = np.array([isa.INTEGER_MIN, isa.INTEGER_MAX], np.float64)
    _run(data, offsets, programs[order], lengths, _INPUTS, _LITERAL, limits, rows, outcome)


@_compile
def _run(
    data: np.ndarray,
    offsets: np.ndarray,
    programs: np.ndarray,
    lengths: np.ndarray,
    inputs: np.ndarray,
    literal: np.ndarray,
    limits: np.ndarray,
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
    # The slot of the top, and the top itself, which is in the stack once another value comes to lie on it.
    slot, top = np.empty(_LANES, np.int64), np.empty(_LANES)
    for first in range(0, len(programs), _LANES):
        lanes = min(_LANES, len(programs) - first)
        steps = lengths[first + lanes - 1]
        has_unary = _transpose(data, offsets, programs, lengths, first, lanes, steps, inputs, code)
        stack[:_BASE], slot[:], top[:] = np.nan, _BASE - 1, np.nan
        for step in range(steps):
            _move(code[step], inputs, literal, stack, slot, top, left, pushed)
            if has_unary:
                _unary(code[step], top)
            _binary(code[step], pushed, left, top, limits)
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


@_compile
def _transpose(
    data: np.ndarray,
    offsets: np.ndarray,
    programs: np.ndarray,
    lengths: np.ndarray,
    first: int,
    lanes: int,
    steps: int,
    inputs: np.ndarray,
    code: np.ndarray,
) -> bool:
    """Give each program a lane of ``code``, filled up with ends; whether there is a unary instruction."""
    has_unary = False
    for lane in range(_LANES):
        length = 0
        if lane < lanes:
            start, length = offsets[programs[first + lane]], lengths[first + lane]
            for step in range(length):
                symbol = data[start + step]
                code[step, lane] = symbol
                has_unary |= inputs[symbol] == 1
        for step in range(length, steps):
            code[step, lane] = _END
    return has_unary


@_compile
def _move(
    code: np.ndarray,
    inputs: np.ndarray,
    literal: np.ndarray,
    stack: np.ndarray,
    slot: np.ndarray,
    top: np.ndarray,
    left: np.ndarray,
    pushed: np.ndarray,
) -> None:
    """Bring the inputs in place, ``left`` being the one below the top, and the stack to its next height."""
    for lane in range(_LANES):
        symbol, here = code[lane], slot[lane]
        stack[here, lane] = top[lane]
        left[lane] = stack[here - 1, lane]
        pushed[lane] = literal[symbol]
        # Each has one output, which is there even if inputs were missing.
        slot[lane] = max(here + 1 - inputs[symbol], _BASE)


@_compile
def _unary(code: np.ndarray, top: np.ndarray) -> None:
    """Execute the instructions with one input; the others leave the top as it is."""
    for lane in range(_LANES):
        symbol, a = code[lane], top[lane]
        half = np.floor(a / 2)
        is_one = (symbol == _NOT) & (a == 0)
        is_one |= (symbol == _TRUTH) & (a != 0)
        is_one |= (symbol == _EVEN) & (half + half == a)
        c = a
        c = (1.0 if is_one else 0.0) if (symbol == _NOT) | (symbol == _TRUTH) | (symbol == _EVEN) else c
        c = a + 1 if symbol == _SUCCESSOR else c
        c = half if symbol == _HALVE else c
        c = -a if symbol == _NEGATE else c
        c = abs(a) if symbol == _ABSOLUTE else c
        top[lane] = c if a == a else a


@_compile
def _binary(
    code: np.ndarray, pushed: np.ndarray, left: np.ndarray, top: np.ndarray, limits: np.ndarray
) -> None:
    """Execute literals and the instructions with two inputs; the others leave the top as it is.

    Whatever the instruction, a result that is out of range is NaN, and so is one of a top that is NaN.  A
    left input that is NaN has to make the result NaN in each instruction, as a unary one does not look at it.
    """
    low, high = limits[0], limits[1]
    for lane in range(_LANES):
        symbol, a, b = code[lane], left[lane], top[lane]
        quotient = np.floor(a / b)
        is_one = (symbol == _LESS) & (a < b)
        is_one |= (symbol == _GREATER) & (a > b)
        is_one |= (symbol == _EQUAL) & (a == b)
        is_one |= (symbol == _AND) & (a != 0) & (b != 0)
        is_one |= (symbol == _OR) & ((a != 0) | (b != 0))
        is_truth = (symbol == _LESS) | (symbol == _GREATER) | (symbol == _EQUAL)
        is_truth |= (symbol == _AND) | (symbol == _OR)
        c = b
        c = (1.0 if is_one & (a == a) else a * 0) if is_truth else c
        c = a + b if symbol == _ADD else c
        c = a - b if symbol == _SUBTRACT else c
        c = a * b if symbol == _MULTIPLY else c
        c = quotient if symbol == _DIVIDE else c
        c = a - b * quotient if symbol == _MODULO else c
        c = (a if (a > b) | (a != a) else b) if symbol == _MAXIMUM else c
        c = (a if (a < b) | (a != a) else b) if symbol == _MINIMUM else c
        c = c if (b == b) & (low <= c) & (c <= high) else np.nan
        top[lane] = pushed[lane] if pushed[lane] == pushed[lane] else c


@_compile
def _all_true(stack: np.ndarray, slot: np.ndarray, steps: int, all_true: np.ndarray) -> None:
    """Whether no value of a lane is 0 or NaN; there is one at least."""
    all_true[:] = True
    for height in range(_BASE, _BASE + steps):
        for lane in range(_LANES):
            value = stack[height, lane]
            all_true[lane] &= (height > slot[lane]) | (value * value > 0)
