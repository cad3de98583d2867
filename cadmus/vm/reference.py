"""The readable machine: the definition of what a program does.

Plain Python without dependencies.  Batches go through :mod:`cadmus.vm.compiled`, which gives the same
results.
"""

from collections.abc import Callable
from typing import NamedTuple

from cadmus import isa


class Number(NamedTuple):
    """An integer with its decoration (0: none)."""

    value: int
    decoration: int = 0


class Sequence(tuple[Number, ...]):
    """At most 16 integers, each with its decoration."""

    __slots__ = ()


NAN = None
Value = Number | Sequence | None


class Result(NamedTuple):
    """What a program leaves: its ``outputs``, the top of the stack last, and whether it is ``true``."""

    outputs: list[Value]
    true: bool


class Step(NamedTuple):
    """One executed instruction.

    Attributes:
        symbol: the instruction.
        place: where it stands in the program, from 0.
        depth: how many calls it is inside of, 0 at the top level.
        stack: of its call, or of the top level, after it.
    """

    symbol: str
    place: int
    depth: int
    stack: list[Value]


def is_true(value: Value) -> bool:
    """Whether a value counts as true: everything but 0 and NAN."""
    return value is not NAN and (isinstance(value, Sequence) or value.value != 0)


def show(value: Value) -> str:
    """A value as text: ``7``, ``7:3`` with the decoration 3, ``[1 2:1 3]`` and ``NAN``."""
    if value is NAN:
        return "NAN"
    if isinstance(value, Sequence):
        return f"[{' '.join(map(show, value))}]"
    return f"{value.value}:{value.decoration}" if value.decoration else str(value.value)


def plain(value: Value) -> int | dict[str, int] | list[int | dict[str, int]] | None:
    """A value as JSON has it: null for NAN, a number, {"value": v, "decoration": d} when decorated, and a
    list of these for a sequence."""
    if value is NAN:
        return None
    return _plain_number(value) if isinstance(value, Number) else [_plain_number(number) for number in value]


def _plain_number(number: Number) -> int | dict[str, int]:
    return number._asdict() if number.decoration else number.value


def run(program: str) -> Result:
    """Execute a program.

    Any sequence of instructions runs to its end; what follows a ``.`` is not part of the program.

    Raises:
        InputError: a character is no instruction.
    """
    machine = _Machine(isa.check_program(program))
    outputs: list[Value] = []
    machine.execute(machine.top, outputs)
    return Result(outputs, bool(outputs) and all(map(is_true, outputs)))


def trace(program: str, *, calls: bool = False) -> list[Step]:
    """The stack after each top-level instruction, in order.

    Args:
        program: to execute.
        calls: whether what is executed inside calls is listed too, before the instruction that calls.

    Raises:
        InputError: a character is no instruction.
    """
    steps: list[Step] = []
    machine = _Machine(isa.check_program(program), steps.append)
    machine.execute(machine.top, [])
    return steps if calls else [step for step in steps if step.depth == 0]


class _BudgetSpent(Exception):
    """The running call may execute no further instruction."""


class _Machine:
    def __init__(self, program: str, watch: Callable[[Step], None] | None = None) -> None:
        self.program = program
        self.top, self.subroutines = isa.places(program)
        self.watch = watch
        self.executed_in_calls = 0

    def execute(
        self, body: list[int], stack: list[Value], current: int | None = None, depth: int = 0
    ) -> None:
        """Execute the instructions at the places ``body``, of the subroutine ``current``, on ``stack``."""
        for place in body:
            symbol = self.program[place]
            if depth > 0:
                if self.executed_in_calls >= isa.CALL_BUDGET:
                    raise _BudgetSpent
                self.executed_in_calls += 1
            inputs, outputs = _EFFECTS[symbol]
            missing = inputs > len(stack)
            bottom = 0 if missing else len(stack) - inputs
            values = stack[bottom:]
            del stack[bottom:]
            if missing or NAN in values:
                stack.extend([NAN] * outputs)
            elif symbol in _CALLING:
                stack.append(self._calling(symbol, values, current, depth))
            else:
                stack.extend(_OPERATIONS[symbol](*values))
            if self.watch:
                self.watch(Step(symbol, place, depth, list(stack)))

    def _call(self, subroutine: int, arguments: list[Value], depth: int) -> Value:
        if (
            subroutine >= len(self.subroutines)
            or depth == isa.MAX_CALL_DEPTH
            or self.executed_in_calls >= isa.CALL_BUDGET
        ):
            return NAN
        stack = list(arguments)
        try:
            self.execute(self.subroutines[subroutine], stack, subroutine, depth + 1)
        except _BudgetSpent:
            return NAN
        return stack[-1] if stack else NAN

    def _calling(self, symbol: str, inputs: list[Value], current: int | None, depth: int) -> Value:
        if symbol in "fghFG":
            return self._call({"f": 0, "g": 1, "h": 2, "F": 0, "G": 1}[symbol], inputs, depth)
        if symbol == "R":
            argument, condition = inputs
            if not is_true(condition):
                return argument
            return NAN if current is None else self._call(current, [argument], depth)
        sequence = inputs[0]
        if not isinstance(sequence, Sequence):
            return NAN
        if symbol == "m":
            return self._map(sequence, depth)
        if symbol == "w":
            return self._filter(sequence, depth)
        return self._fold(sequence, inputs[1], depth)

    def _map(self, sequence: Sequence, depth: int) -> Value:
        results = []
        for element in sequence:
            result = self._call(0, [element], depth)
            if not isinstance(result, Number):
                return NAN
            results.append(result)
        return Sequence(results)

    def _filter(self, sequence: Sequence, depth: int) -> Value:
        kept = []
        for element in sequence:
            verdict = self._call(0, [element], depth)
            if verdict is NAN:
                return NAN
            if is_true(verdict):
                kept.append(element)
        return Sequence(kept)

    def _fold(self, sequence: Sequence, accumulator: Value, depth: int) -> Value:
        for element in sequence:
            accumulator = self._call(0, [accumulator, element], depth)
            if accumulator is NAN:
                return NAN
        return accumulator


_CALLING = frozenset("fghFGRmwl")
_EFFECTS = {row.symbol: (row.inputs, row.outputs) for row in isa.INSTRUCTIONS}


def _integer(value: int) -> Number | None:
    return Number(value) if isa.INTEGER_MIN <= value <= isa.INTEGER_MAX else NAN


def _sequence(elements: list[Number] | tuple[Number, ...]) -> Value:
    return Sequence(elements) if len(elements) <= isa.MAX_SEQUENCE_LENGTH else NAN


def _literal(value: Value) -> Callable[[], tuple[Value]]:
    outputs = (value,)
    return lambda: outputs


def _elementwise(function: Callable[..., Number | None]) -> Callable[..., tuple[Value]]:
    """Lift a function of integers to sequences of one length; an integer broadcasts."""

    def lifted(*inputs: Value) -> tuple[Value]:
        if Sequence not in map(type, inputs):
            return (function(*inputs),)
        lengths = {len(value) for value in inputs if isinstance(value, Sequence)}
        if len(lengths) > 1:
            return (NAN,)
        columns = [value if isinstance(value, Sequence) else (value,) * min(lengths) for value in inputs]
        results = [function(*elements) for elements in zip(*columns, strict=True)]
        numbers = [result for result in results if result is not NAN]
        return (Sequence(numbers) if len(numbers) == len(results) else NAN,)

    return lifted


def _arithmetic(function: Callable[..., int | None]) -> Callable[..., tuple[Value]]:
    """An element-wise instruction on plain values: the result has no decoration, None is NAN."""

    def on_numbers(*numbers: Number) -> Number | None:
        result = function(*[number.value for number in numbers])
        return NAN if result is None else _integer(int(result))

    return _elementwise(on_numbers)


def _of_sequences(function: Callable[..., Value]) -> Callable[..., tuple[Value]]:
    """An instruction whose inputs must all be sequences; another type is NAN."""

    def checked(*inputs: Value) -> tuple[Value]:
        fits = all(isinstance(value, Sequence) for value in inputs)
        return (function(*inputs) if fits else NAN,)

    return checked


def _append(sequence: Value, element: Value) -> tuple[Value]:
    if not isinstance(sequence, Sequence) or not isinstance(element, Number):
        return (NAN,)
    return (_sequence((*sequence, element)),)


def _index(sequence: Value, position: Value) -> tuple[Value]:
    if not isinstance(sequence, Sequence) or not isinstance(position, Number):
        return (NAN,)
    if not -len(sequence) <= position.value < len(sequence):
        return (NAN,)
    return (sequence[position.value],)


def _keep(sequence: Sequence, mask: Sequence) -> Value:
    if len(sequence) != len(mask):
        return NAN
    return Sequence(element for element, keep in zip(sequence, mask, strict=True) if keep.value != 0)


def _range(length: Value) -> tuple[Value]:
    if not isinstance(length, Number) or length.value > isa.MAX_SEQUENCE_LENGTH:
        return (NAN,)
    return (Sequence(Number(value) for value in range(length.value)),)


def _decorate(number: Number, decoration: Number) -> Number | None:
    if not 0 <= decoration.value <= isa.MAX_DECORATION:
        return NAN
    return Number(number.value, decoration.value)


def _first_by_value(choose: Callable[..., Number], sequence: Sequence) -> Value:
    return choose(sequence, key=lambda number: number.value) if sequence else NAN


_OPERATIONS: dict[str, Callable[..., tuple[Value, ...]]] = {
    **{digit: _literal(Number(int(digit))) for digit in "0123456789"},
    "t": _literal(Number(10)),
    "Z": _literal(Number(-1)),
    "u": _literal(Sequence()),
    "+": _arithmetic(lambda a, b: a + b),
    "-": _arithmetic(lambda a, b: a - b),
    "*": _arithmetic(lambda a, b: a * b),
    "/": _arithmetic(lambda a, b: a // b if b else None),
    "%": _arithmetic(lambda a, b: a % b if b else None),
    "x": _arithmetic(max),
    "n": _arithmetic(min),
    "<": _arithmetic(lambda a, b: a < b),
    ">": _arithmetic(lambda a, b: a > b),
    "=": _arithmetic(lambda a, b: a == b),
    "&": _arithmetic(lambda a, b: a != 0 and b != 0),
    "|": _arithmetic(lambda a, b: a != 0 or b != 0),
    "!": _arithmetic(lambda a: a == 0),
    "?": _arithmetic(lambda a: a != 0),
    "'": _arithmetic(lambda a: a + 1),
    "B": _arithmetic(lambda a: a // 2),
    "~": _arithmetic(lambda a: -a),
    "a": _arithmetic(abs),
    "e": _arithmetic(lambda a: a % 2 == 0),
    "E": lambda a: (a, a),
    "_": lambda a: (),
    "s": lambda a, b: (b, a),
    "o": lambda a, b: (a, b, a),
    "r": lambda a, b, c: (b, c, a),
    "i": lambda c, a, b: (a if is_true(c) else b,),
    "b": _append,
    "c": _of_sequences(lambda s, z: _sequence((*s, *z))),
    "@": _index,
    "L": _of_sequences(lambda s: _integer(len(s))),
    "$": _of_sequences(lambda s: _integer(sum(number.value for number in s))),
    "X": _of_sequences(lambda s: _first_by_value(max, s)),
    "N": _of_sequences(lambda s: _first_by_value(min, s)),
    "A": _of_sequences(lambda s: _integer(int(all(number.value != 0 for number in s)))),
    "S": _of_sequences(lambda s: Sequence(sorted(s, key=lambda number: number.value))),
    "V": _of_sequences(lambda s: Sequence(reversed(s))),
    "K": _of_sequences(_keep),
    "I": _range,
    "Y": lambda a, b: (Number(int(type(a) is type(b) and a == b)),),
    ":": _elementwise(_decorate),
    '"': _elementwise(lambda number: Number(number.decoration)),
}
