"""The compiled machine: the semantics of :mod:`cadmus.vm.reference` for batches of programs, in Numba.

Programs that hold nothing but plain integers run in lock step, see :mod:`cadmus.vm.lockstep`; what is here
runs the others, one after another.

A stack is a matrix of 64-bit words with one value in a row.  The first word is the *shape* of the value: 0
for NAN, 1 for an integer, 2 + n for a sequence of n elements.  The words after it are the elements (an
integer is its own only element), each ``value · 256 + decoration``.  A call runs in place: its arguments
are on top of the caller's stack already, so its frame begins at the first of them, and its value is left
there.

Numba's cache notices changes of this file but not of the instruction table, so everything that is read
from the table travels as an argument.
"""

from itertools import pairwise
from typing import NamedTuple

import numba
import numpy as np

from cadmus import isa
from cadmus.errors import InputError
from cadmus.programs import Programs, offsets_of
from cadmus.vm import lockstep
from cadmus.vm.outcome import NAN, NUMBER, SEQUENCE, Outcome, empty_outcome
from cadmus.vm.reference import Number, Sequence, Value

# In the first word of a row, SEQUENCE stands for an empty sequence.


def verdicts(programs: Programs) -> np.ndarray:
    """Whether each program is true: bool, shape (n,).

    Raises:
        InputError: a byte is no instruction; it names the program (from 0) and the position (from 1).
    """
    return _execute(programs, np.zeros(len(programs) + 1, np.int64)).true


def execute(programs: Programs) -> Outcome:
    """The verdict, the number of outputs and the top output of each program.

    Raises:
        InputError: as for :func:`verdicts`.
    """
    return _execute(programs, np.arange(len(programs) + 1, dtype=np.int64))


def outputs(programs: Programs) -> list[list[Value]]:
    """All outputs of each program as the readable machine gives them; for tests and small batches.

    Raises:
        InputError: as for :func:`verdicts`.
    """
    counts = execute(programs).count
    bounds = offsets_of(counts)
    outcome = _execute(programs, bounds)
    # The first elements as Python numbers at once: most values are numbers.
    first = zip(
        outcome.kind.tolist(),
        outcome.values[:, 0].tolist(),
        outcome.decorations[:, 0].tolist(),
        strict=True,
    )
    values: list[Value] = [
        Number(value, decoration) if kind == NUMBER else None if kind == NAN else _sequence(outcome, row)
        for row, (kind, value, decoration) in enumerate(first)
    ]
    return [values[start:stop] for start, stop in pairwise(bounds.tolist())]


def _sequence(outcome: Outcome, row: int) -> Sequence:
    length = outcome.length[row]
    return Sequence(
        map(Number, outcome.values[row, :length].tolist(), outcome.decorations[row, :length].tolist())
    )


def _execute(programs: Programs, rows: np.ndarray) -> Outcome:
    """Run all programs; of program i the last ``rows[i + 1] - rows[i]`` outputs (NAN for those that it does
    not have) are written to the rows from ``rows[i]`` of the last four fields."""
    data = np.ascontiguousarray(programs.data).view()
    offsets = np.ascontiguousarray(programs.offsets).view()
    # Numba compiles once more for arrays that may be written to: make both always read-only.
    data.flags.writeable = offsets.flags.writeable = False
    lengths = _number_lengths(data, offsets)
    outcome = empty_outcome(len(programs), int(rows[-1]))
    in_step = np.flatnonzero(lengths)
    if len(in_step):
        lockstep.run(data, offsets, in_step, lengths[in_step], rows, outcome)
    if len(in_step) < len(programs):
        _run_one_by_one(data, offsets, np.flatnonzero(lengths == 0), rows, outcome)
    return outcome


def _number_lengths(data: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Instructions of each program that can run in lock step, 0 for the others: uint8, shape (n,).

    Raises:
        InputError: a byte is no instruction.
    """
    lengths = np.empty(len(offsets) - 1, np.uint8)
    place = _measure(data, offsets, _BYTE_CLASS, lockstep.LONGEST, lengths)
    if place < offsets[-1]:
        program = int(np.searchsorted(offsets, place, side="right")) - 1
        raise InputError(
            f"program {program}: unknown symbol {chr(data[place])!r} at position "
            f"{place - offsets[program] + 1}; `cadmus isa` lists the {isa.VOCABULARY_SIZE} instructions"
        )
    return lengths


def _run_one_by_one(
    data: np.ndarray, offsets: np.ndarray, programs: np.ndarray, rows: np.ndarray, outcome: Outcome
) -> None:
    longest = int(np.diff(offsets)[programs].max())
    # No instruction adds more than its outputs; a call for an element of a sequence adds that element.  The
    # slots below the first value are looked at when inputs are missing; one above all is for moving values.
    slots = _MOST_INPUTS + _MOST_OUTPUTS * (longest + isa.CALL_BUDGET) + isa.MAX_CALL_DEPTH + 1
    _execute_batch(
        data,
        offsets,
        programs,
        np.empty((slots, 1 + isa.MAX_SEQUENCE_LENGTH), np.int64),
        _MOST_INPUTS,
        np.empty(2 * longest, np.uint8),
        np.empty((1 + _SUBROUTINES, 2), np.int64),
        np.empty((isa.MAX_CALL_DEPTH + 1, _FRAME), np.int64),
        _TABLE,
        _Limits(**isa.LIMITS),
        rows,
        outcome,
    )


# Families of instructions that are executed in the same way.
_UNKNOWN, _LITERAL, _ELEMENTWISE, _STACK, _SEQUENCE, _CALL, _READ_EARLIER = range(7)
_FAMILY = {
    "end": _READ_EARLIER,
    "definitions": _READ_EARLIER,
    "literals": _LITERAL,
    "arithmetic": _ELEMENTWISE,
    "comparison and logic": _ELEMENTWISE,
    "unary": _ELEMENTWISE,
    "decorations": _ELEMENTWISE,
    "stack": _STACK,
    "calls": _CALL,
    "higher order": _CALL,
    "sequences": _SEQUENCE,
}
_DECORATION_BITS = 8


def _byte_table() -> np.ndarray:
    """What the machine reads of the instruction table: int64, shape (5, 256), a column for each byte.

    The last two rows are the first words of the value that a literal pushes.
    """
    table = np.zeros((5, 256), np.int64)
    for row in isa.INSTRUCTIONS:
        pushed = (0, 0)
        if row.group == "literals":
            literal = row.effect.split()[-1]
            pushed = (SEQUENCE, 0) if literal == "s" else (NUMBER, int(literal) << _DECORATION_BITS)
        table[:, ord(row.symbol)] = _FAMILY[row.group], row.inputs, row.outputs, *pushed
    return table


_FAMILY_OF, _INPUTS, _OUTPUTS, _SHAPE, _WORD = range(5)
_TABLE = _byte_table()
_MOST_INPUTS = max(row.inputs for row in isa.INSTRUCTIONS)
_MOST_OUTPUTS = max(row.outputs for row in isa.INSTRUCTIONS)

# What a byte can be, as bits: an instruction of a number program has none of them.
_ENDS, _NOT_IN_STEP, _NO_INSTRUCTION = 1, 2, 4
_BYTE_CLASS = np.where(
    _TABLE[_FAMILY_OF] == _UNKNOWN, _NO_INSTRUCTION, np.where(lockstep.ALLOWED, 0, _NOT_IN_STEP)
).astype(np.uint8)
_BYTE_CLASS[ord(isa.END)] = _ENDS


class _Limits(NamedTuple):
    integer_min: int
    integer_max: int
    max_sequence_length: int
    max_decoration: int
    max_call_depth: int
    call_budget: int


_SUBROUTINES = 3  # f, g and h reach this many
_TOP_LEVEL = 0  # row of the bodies; subroutine k has row k + 1

# Columns of a frame: the calling instruction, the slot of its result, its calls done and to do, the body that
# it calls and the slots of the arguments; then where the body of the instruction itself goes on.
_SYMBOL, _RESULT, _ROUND, _ROUNDS, _BODY, _CALL_BASE, _CALL_TOP, _POSITION, _STOP, _BASE = range(10)
_FRAME = 10

_END, _DEFINE, _END_DEFINITION = b".\\;"
_ADD, _SUBTRACT, _MULTIPLY, _DIVIDE, _MODULO, _MAXIMUM, _MINIMUM = b"+-*/%xn"
_LESS, _GREATER, _EQUAL, _AND, _OR = b"<>=&|"
_NOT, _TRUTH, _SUCCESSOR, _HALVE, _NEGATE, _ABSOLUTE, _EVEN = b"!?'B~ae"
_DECORATE, _GET_DECORATION = b':"'
_DUPLICATE, _DROP, _SWAP, _OVER, _ROTATE, _CHOOSE = b"E_sori"
_CALL_0, _CALL_1, _CALL_2, _CALL_0_WITH_TWO, _CALL_1_WITH_TWO, _RECUR = b"fghFGR"
_MAP, _FILTER, _FOLD = b"mwl"
_APPEND, _CONCATENATE, _INDEX, _LENGTH, _SUM, _LARGEST, _SMALLEST = b"bc@L$XN"
_ALL, _SORT, _REVERSE, _KEEP, _RANGE, _IDENTICAL = b"ASVKIY"

_NO_NUMBER = 2**62  # a word that no number has, for a result that is NAN

# Divisors are checked before they divide, so the checks that Python's error model adds are not needed.
_compile = numba.njit(cache=True, nogil=True, error_model="numpy")


@_compile
def _measure(
    data: np.ndarray, offsets: np.ndarray, byte_class: np.ndarray, longest: int, lengths: np.ndarray
) -> int:
    """Fill in ``lengths``; the position of the first byte that is no instruction, or the end of all."""
    for i in range(len(lengths)):
        start: int = offsets[i]
        stop: int = offsets[i + 1]
        seen = 0
        for position in range(start, stop):
            seen |= byte_class[data[position]]
        if seen & _NO_INSTRUCTION:
            while byte_class[data[start]] != _NO_INSTRUCTION:
                start += 1
            return start
        if seen & _ENDS:
            # What is behind the end does not count.
            end = start
            seen = 0
            while byte_class[data[end]] != _ENDS:
                seen |= byte_class[data[end]]
                end += 1
            stop = end
        lengths[i] = stop - start if seen == 0 and stop - start <= longest else 0
    after_all: int = offsets[-1]
    return after_all


@_compile
def _execute_batch(
    data: np.ndarray,
    offsets: np.ndarray,
    programs: np.ndarray,
    stack: np.ndarray,
    base: int,
    code: np.ndarray,
    bodies: np.ndarray,
    frames: np.ndarray,
    table: np.ndarray,
    limits: _Limits,
    rows: np.ndarray,
    outcome: Outcome,
) -> None:
    """Execute the programs of the batch that ``programs`` lists.

    The outputs of each lie in the slots of the stack from ``base``.  ``code`` holds the instructions of one
    program, the top level and then the subroutines; ``bodies`` where in it each begins and ends, a beginning
    of -1 for a subroutine that is not defined; ``frames`` the calling instruction at each depth.
    """
    # Taking an array out of a tuple counts a reference, which is slow, so the others are no tuple.
    true, count = outcome.true, outcome.count
    stack[:base] = NAN
    for i in programs:
        _read(data, offsets[i], offsets[i + 1], code, bodies)
        top = _run(stack, base, code, bodies, frames, table, limits)
        true[i] = _all_true(stack, base, top)
        count[i] = top - base
        wanted = min(rows[i + 1] - rows[i], top - base)
        for k in range(wanted):
            _write(stack, top - wanted + k, rows[i] + k, outcome)


@_compile
def _all_true(stack: np.ndarray, base: int, top: int) -> bool:
    for slot in range(base, top):
        if not _is_true(stack, slot):
            return False
    return top > base


@_compile
def _write(stack: np.ndarray, slot: int, row: int, outcome: Outcome) -> None:
    """Unpack one value into a row of the outcome, which is all 0 before."""
    values, decorations = outcome.values, outcome.decorations
    shape = stack[slot, 0]
    outcome.kind[row] = min(shape, SEQUENCE)
    outcome.length[row] = max(shape - SEQUENCE, 0)
    elements = 1 if shape == NUMBER else shape - SEQUENCE
    for i in range(elements):
        values[row, i] = stack[slot, 1 + i] >> _DECORATION_BITS
        decorations[row, i] = stack[slot, 1 + i] & ((1 << _DECORATION_BITS) - 1)


@_compile
def _read(data: np.ndarray, start: int, stop: int, code: np.ndarray, bodies: np.ndarray) -> None:
    """Separate the top level from the definitions, as :func:`cadmus.isa.split_definitions` does."""
    bodies[:, 0] = -1
    top = 0
    # The bodies lie behind the longest possible top level.
    body = first = len(code) // 2
    defined = 0
    inside = False
    for i in range(start, stop):
        symbol = data[i]
        if symbol == _END:
            break
        if symbol == _DEFINE:
            if not inside:
                inside = True
                first = body
        elif symbol == _END_DEFINITION:
            if inside:
                inside = False
                defined += 1
                _define(bodies, defined, first, body)
        elif inside:
            code[body] = symbol
            body += 1
        else:
            code[top] = symbol
            top += 1
    if inside:
        _define(bodies, defined + 1, first, body)
    bodies[_TOP_LEVEL, 0] = 0
    bodies[_TOP_LEVEL, 1] = top


@_compile
def _define(bodies: np.ndarray, row: int, first: int, stop: int) -> None:
    if row <= _SUBROUTINES:
        bodies[row, 0] = first
        bodies[row, 1] = stop


@_compile
def _run(
    stack: np.ndarray,
    base: int,
    code: np.ndarray,
    bodies: np.ndarray,
    frames: np.ndarray,
    table: np.ndarray,
    limits: _Limits,
) -> int:
    """Execute the program that was read, from an empty stack, and return the slot above its outputs."""
    top = base
    depth = executed_in_calls = 0
    position, stop = bodies[_TOP_LEVEL]
    while True:
        start = position
        halt = stop if depth == 0 else min(stop, position + limits.call_budget - executed_in_calls)
        position, top = _run_to_call(code, position, halt, stack, base, top, table, limits)
        calls = position < halt
        if depth > 0:
            executed_in_calls += position - start + calls
        if calls:
            bottom = top - table[_INPUTS, code[position]]
            _begin_calls(code[position], stack, frames, bottom, depth)
            frames[depth, _POSITION], frames[depth, _STOP], frames[depth, _BASE] = position + 1, stop, base
        elif depth == 0:
            return top
        else:
            depth -= 1
            if position < stop or top == base:
                stack[base, 0] = NAN
                top = base + 1
            _take_value(stack, frames, depth, top - 1)
        # The instruction of frames[depth] calls, for the first time or again.
        if _prepare_call(stack, bodies, frames, depth, limits, executed_in_calls):
            position, stop = bodies[frames[depth, _BODY]]
            base, top = frames[depth, _CALL_BASE], frames[depth, _CALL_TOP]
            depth += 1
        else:
            position, stop, base = frames[depth, _POSITION], frames[depth, _STOP], frames[depth, _BASE]
            top = frames[depth, _RESULT] + 1


@_compile
def _run_to_call(
    code: np.ndarray,
    position: int,
    halt: int,
    stack: np.ndarray,
    base: int,
    top: int,
    table: np.ndarray,
    limits: _Limits,
) -> tuple[int, int]:
    """Execute instructions up to ``halt`` or to a call whose inputs are all there; return where that is, and
    the new top."""
    while position < halt:
        symbol = code[position]
        family = table[_FAMILY_OF, symbol]
        if family == _LITERAL:
            stack[top, 0] = table[_SHAPE, symbol]
            stack[top, 1] = table[_WORD, symbol]
            top += 1
            position += 1
            continue
        bottom = top - table[_INPUTS, symbol]
        if family == _ELEMENTWISE:
            left_shape, right_shape = stack[bottom, 0], stack[top - 1, 0]
            if left_shape | right_shape <= NUMBER:
                # Numbers and NAN only.  Whether the result is NAN is hard to predict, so it is no branch.
                word = _of_numbers(symbol, stack[bottom, 1], stack[top - 1, 1], limits)
                number = (bottom >= base) & (left_shape & right_shape == NUMBER) & (word != _NO_NUMBER)
                bottom = max(bottom, base)
                stack[bottom, 0] = NUMBER if number else NAN
                stack[bottom, 1] = word
                top = bottom + 1
                position += 1
                continue
        if bottom < base or _any_nan(stack, bottom, top):
            bottom = max(bottom, base)
            for slot in range(bottom, bottom + table[_OUTPUTS, symbol]):
                stack[slot, 0] = NAN
        elif family == _ELEMENTWISE:
            _elementwise(symbol, stack, bottom, top - 1, limits)
        elif family == _STACK:
            _rearrange(symbol, stack, bottom, top)
        elif family == _SEQUENCE:
            _of_sequences(symbol, stack, bottom, limits)
        else:
            return position, top
        top = bottom + table[_OUTPUTS, symbol]
        position += 1
    return position, top


@_compile
def _any_nan(stack: np.ndarray, bottom: int, top: int) -> bool:
    found = False
    for slot in range(bottom, top):
        found |= stack[slot, 0] == NAN
    return found


@_compile
def _begin_calls(symbol: int, stack: np.ndarray, frames: np.ndarray, bottom: int, depth: int) -> None:
    """Note in the frame which calls an instruction will make; its result will replace its first input."""
    frames[depth, _SYMBOL] = symbol
    frames[depth, _RESULT] = bottom
    frames[depth, _ROUND] = 0
    if symbol in (_MAP, _FILTER, _FOLD):
        frames[depth, _BODY] = 1
        # The elements of a result go where elements were that are done with.  The accumulator of a fold lies
        # above the sequence, so that its calls begin with it.
        frames[depth, _CALL_BASE] = bottom + 1
        frames[depth, _CALL_TOP] = bottom + (3 if symbol == _FOLD else 2)
        if stack[bottom, 0] >= SEQUENCE:
            frames[depth, _ROUNDS] = stack[bottom, 0] - SEQUENCE
            stack[bottom, 0] = SEQUENCE
        else:
            _give_up(stack, frames, depth)
        return
    frames[depth, _ROUNDS] = 1
    frames[depth, _CALL_BASE] = bottom
    frames[depth, _CALL_TOP] = bottom + (2 if symbol in (_CALL_0_WITH_TWO, _CALL_1_WITH_TWO) else 1)
    if symbol == _RECUR:
        if not _is_true(stack, bottom + 1):
            frames[depth, _ROUNDS] = 0
        elif depth == 0:
            _give_up(stack, frames, depth)
        else:
            frames[depth, _BODY] = frames[depth - 1, _BODY]
    elif symbol == _CALL_2:
        frames[depth, _BODY] = 3
    elif symbol in (_CALL_1, _CALL_1_WITH_TWO):
        frames[depth, _BODY] = 2
    else:
        frames[depth, _BODY] = 1


@_compile
def _give_up(stack: np.ndarray, frames: np.ndarray, depth: int) -> None:
    """The instruction of a frame gives NAN and makes no further call."""
    stack[frames[depth, _RESULT], 0] = NAN
    frames[depth, _ROUNDS] = frames[depth, _ROUND] = -1


@_compile
def _prepare_call(
    stack: np.ndarray,
    bodies: np.ndarray,
    frames: np.ndarray,
    depth: int,
    limits: _Limits,
    executed_in_calls: int,
) -> bool:
    """Put the arguments of the next call in place; False when the instruction makes none any more and its
    result is in place."""
    symbol, result, index = frames[depth, _SYMBOL], frames[depth, _RESULT], frames[depth, _ROUND]
    if index == frames[depth, _ROUNDS]:
        if symbol == _FOLD and index >= 0:
            _copy(stack, result + 1, result)
        return False
    defined = bodies[frames[depth, _BODY], 0] >= 0
    if not defined or depth == limits.max_call_depth or executed_in_calls >= limits.call_budget:
        _give_up(stack, frames, depth)
        return False
    if symbol in (_MAP, _FILTER, _FOLD):
        _put_number(stack, frames[depth, _CALL_TOP] - 1, stack[result, 1 + index])
    return True


@_compile
def _take_value(stack: np.ndarray, frames: np.ndarray, depth: int, slot: int) -> None:
    """Use the value of a call, which lies in ``slot``."""
    symbol, result, index = frames[depth, _SYMBOL], frames[depth, _RESULT], frames[depth, _ROUND]
    frames[depth, _ROUND] += 1
    if stack[slot, 0] == NAN or (symbol == _MAP and stack[slot, 0] != NUMBER):
        _give_up(stack, frames, depth)
    elif symbol in (_MAP, _FILTER):
        if symbol == _MAP or _is_true(stack, slot):
            kept = stack[result, 0] - SEQUENCE
            stack[result, 1 + kept] = stack[slot, 1] if symbol == _MAP else stack[result, 1 + index]
            stack[result, 0] += 1
    else:
        _copy(stack, slot, frames[depth, _CALL_BASE])


@_compile
def _is_true(stack: np.ndarray, slot: int) -> bool:
    shape = stack[slot, 0]
    return shape >= SEQUENCE or (shape == NUMBER and _number(stack[slot, 1]) != 0)


@_compile
def _number(word: int) -> int:
    return word >> _DECORATION_BITS


@_compile
def _put_number(stack: np.ndarray, slot: int, word: int) -> None:
    stack[slot, 0] = NUMBER
    stack[slot, 1] = word


@_compile
def _put_integer(stack: np.ndarray, slot: int, value: int, limits: _Limits) -> None:
    """An integer without decoration, NAN when it is out of range."""
    inside = limits.integer_min <= value <= limits.integer_max
    stack[slot, 0] = NUMBER if inside else NAN
    stack[slot, 1] = value << _DECORATION_BITS


@_compile
def _copy(stack: np.ndarray, source: int, target: int) -> None:
    shape = stack[source, 0]
    stack[target, 0] = shape
    stack[target, 1] = stack[source, 1]
    for i in range(1, shape - SEQUENCE):
        stack[target, 1 + i] = stack[source, 1 + i]


@_compile
def _elementwise(symbol: int, stack: np.ndarray, left: int, right: int, limits: _Limits) -> None:
    """Lift an instruction on numbers to sequences of one length; a number broadcasts.

    ``left`` and ``right`` are the slots of the inputs, the same one when there is only one; the result
    replaces the left.
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
    # From the last to the first: the left number that broadcasts lies where the first result goes.
    for i in range(elements - 1, -1, -1):
        word = _of_numbers(symbol, stack[left, 1 + i * left_step], stack[right, 1 + i * right_step], limits)
        if word == _NO_NUMBER:
            stack[left, 0] = NAN
            return
        stack[left, 1 + i] = word


@_compile
def _of_numbers(symbol: int, left: int, right: int, limits: _Limits) -> int:
    """The word of an element-wise instruction's result, _NO_NUMBER for NAN."""
    a, b = _number(left), _number(right)
    c = a
    if symbol == _ADD:
        c = a + b
    elif symbol == _SUBTRACT:
        c = a - b
    elif symbol == _MULTIPLY:
        c = a * b
    elif symbol == _DIVIDE:
        if b == 0:
            return _NO_NUMBER
        c = a // b
    elif symbol == _MODULO:
        if b == 0:
            return _NO_NUMBER
        c = a % b
    elif symbol == _MAXIMUM:
        c = max(a, b)
    elif symbol == _MINIMUM:
        c = min(a, b)
    elif symbol == _LESS:
        c = int(a < b)
    elif symbol == _GREATER:
        c = int(a > b)
    elif symbol == _EQUAL:
        c = int(a == b)
    elif symbol == _AND:
        c = int((a != 0) & (b != 0))
    elif symbol == _OR:
        c = int((a != 0) | (b != 0))
    elif symbol == _NOT:
        c = int(a == 0)
    elif symbol == _TRUTH:
        c = int(a != 0)
    elif symbol == _SUCCESSOR:
        c = a + 1
    elif symbol == _HALVE:
        c = a >> 1
    elif symbol == _NEGATE:
        c = -a
    elif symbol == _ABSOLUTE:
        c = abs(a)
    elif symbol == _EVEN:
        c = 1 - (a & 1)
    elif symbol == _GET_DECORATION:
        c = left & ((1 << _DECORATION_BITS) - 1)
    elif symbol == _DECORATE:
        return (a << _DECORATION_BITS) | b if 0 <= b <= limits.max_decoration else _NO_NUMBER
    inside = limits.integer_min <= c <= limits.integer_max
    return c << _DECORATION_BITS if inside else _NO_NUMBER


@_compile
def _rearrange(symbol: int, stack: np.ndarray, bottom: int, top: int) -> None:
    """The instructions that only move values; the slot ``top`` is free."""
    if symbol in (_DUPLICATE, _OVER):
        _copy(stack, bottom, top)
    elif symbol in (_SWAP, _ROTATE):
        _copy(stack, bottom, top)
        for slot in range(bottom, top):
            _copy(stack, slot + 1, slot)
    elif symbol == _CHOOSE:
        _copy(stack, bottom + 1 if _is_true(stack, bottom) else bottom + 2, bottom)


@_compile
def _of_sequences(symbol: int, stack: np.ndarray, slot: int, limits: _Limits) -> None:
    """The instructions on sequences; the result replaces the first input, in ``slot``."""
    second = slot + 1
    length = stack[slot, 0] - SEQUENCE
    if symbol == _IDENTICAL:
        _put_integer(stack, slot, _identical(stack, slot, second), limits)
    elif symbol == _RANGE:
        _range(stack, slot, limits)
    elif length < 0:
        stack[slot, 0] = NAN
    elif symbol == _APPEND:
        if stack[second, 0] == NUMBER and length < limits.max_sequence_length:
            stack[slot, 1 + length] = stack[second, 1]
            stack[slot, 0] += 1
        else:
            stack[slot, 0] = NAN
    elif symbol == _INDEX:
        _index(stack, slot, second, length)
    elif symbol == _CONCATENATE:
        _concatenate(stack, slot, second, length, limits)
    elif symbol == _KEEP:
        _keep(stack, slot, second, length)
    elif symbol == _LENGTH:
        _put_integer(stack, slot, length, limits)
    elif symbol == _SUM:
        total = 0
        for i in range(length):
            total += _number(stack[slot, 1 + i])
        _put_integer(stack, slot, total, limits)
    elif symbol == _ALL:
        nonzero = 0
        for i in range(length):
            nonzero += _number(stack[slot, 1 + i]) != 0
        _put_integer(stack, slot, int(nonzero == length), limits)
    elif symbol in (_LARGEST, _SMALLEST):
        _extreme(stack, slot, length, 1 if symbol == _LARGEST else -1)
    elif symbol == _SORT:
        _sort(stack, slot, length)
    elif symbol == _REVERSE:
        for i in range(length // 2):
            first, last = stack[slot, 1 + i], stack[slot, length - i]
            stack[slot, 1 + i], stack[slot, length - i] = last, first


@_compile
def _identical(stack: np.ndarray, slot: int, second: int) -> int:
    shape = stack[slot, 0]
    if stack[second, 0] != shape:
        return 0
    for i in range(1 if shape == NUMBER else shape - SEQUENCE):
        if stack[slot, 1 + i] != stack[second, 1 + i]:
            return 0
    return 1


@_compile
def _range(stack: np.ndarray, slot: int, limits: _Limits) -> None:
    length = max(_number(stack[slot, 1]), 0)
    if stack[slot, 0] != NUMBER or length > limits.max_sequence_length:
        stack[slot, 0] = NAN
        return
    stack[slot, 0] = SEQUENCE + length
    for i in range(length):
        stack[slot, 1 + i] = i << _DECORATION_BITS


@_compile
def _index(stack: np.ndarray, slot: int, second: int, length: int) -> None:
    position = _number(stack[second, 1])
    if stack[second, 0] != NUMBER or position < -length or position >= length:
        stack[slot, 0] = NAN
    else:
        _put_number(stack, slot, stack[slot, 1 + (position + length if position < 0 else position)])


@_compile
def _concatenate(stack: np.ndarray, slot: int, second: int, length: int, limits: _Limits) -> None:
    added = stack[second, 0] - SEQUENCE
    if added < 0 or length + added > limits.max_sequence_length:
        stack[slot, 0] = NAN
        return
    for i in range(added):
        stack[slot, 1 + length + i] = stack[second, 1 + i]
    stack[slot, 0] += added


@_compile
def _keep(stack: np.ndarray, slot: int, second: int, length: int) -> None:
    if stack[second, 0] != stack[slot, 0]:
        stack[slot, 0] = NAN
        return
    kept = 0
    for i in range(length):
        if _number(stack[second, 1 + i]) != 0:
            stack[slot, 1 + kept] = stack[slot, 1 + i]
            kept += 1
    stack[slot, 0] = SEQUENCE + kept


@_compile
def _extreme(stack: np.ndarray, slot: int, length: int, sign: int) -> None:
    """The first of the largest elements (``sign`` 1) or of the smallest (-1)."""
    if length == 0:
        stack[slot, 0] = NAN
        return
    best = stack[slot, 1]
    for i in range(1, length):
        if sign * _number(stack[slot, 1 + i]) > sign * _number(best):
            best = stack[slot, 1 + i]
    _put_number(stack, slot, best)


@_compile
def _sort(stack: np.ndarray, slot: int, length: int) -> None:
    """Insertion sort by value: stable, and fast on 16 elements."""
    for i in range(1, length):
        word = stack[slot, 1 + i]
        k = i
        while k > 0 and _number(stack[slot, k]) > _number(word):
            stack[slot, 1 + k] = stack[slot, k]
            k -= 1
        stack[slot, 1 + k] = word
