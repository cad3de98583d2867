"""The reference VM: the definition of what a program does, in plain Python.

:mod:`cadmus.vm.compiled` gives the same results for batches.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import Any, NamedTuple

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
    """The ``outputs`` of a program, the top of the stack last, and whether it is ``true``."""

    outputs: list[Value]
    true: bool


class Step(NamedTuple):
    """One executed instruction: its ``symbol``, and its ``position`` in the program, from 0."""

    symbol: str
    position: int
    depth: int
    """Number of calls around it, 0 at the top level."""
    stack: list[Value]
    """The stack of its call, or of the top level, after it."""


def is_true(value: Value) -> bool:
    return value is not NAN and (isinstance(value, Sequence) or value.value != 0)


def show(value: Value) -> str:
    """Format a value: ``7``, ``7:3`` with the decoration 3, ``[1 2:1 3]``, ``NAN``."""
    if value is NAN:
        return "NAN"
    if isinstance(value, Sequence):
        return f"[{' '.join(map(show, value))}]"
    return f"{value.value}:{value.decoration}" if value.decoration else str(value.value)


def plain(value: Value) -> Any:
    """Convert a value to JSON: null for NAN, a number, {"value": v, "decoration": d}, or a list of these."""
    if value is NAN:
        return None
    if isinstance(value, Sequence):
        return [plain(number) for number in value]
    return value._asdict() if value.decoration else value.value


def run(program: str) -> Result:
    """Execute a program up to its end or its first ``.``."""
    vm = _VM(isa.check_program(program))
    outputs: list[Value] = []
    vm.execute(vm.top, outputs)
    return Result(outputs, bool(outputs) and all(map(is_true, outputs)))


def trace(program: str, *, calls: bool = False) -> list[Step]:
    """Return the steps of the top level, with ``calls`` those inside calls before the one that calls."""
    steps: list[Step] = []
    vm = _VM(isa.check_program(program), steps.append)
    vm.execute(vm.top, [])
    return steps if calls else [step for step in steps if step.depth == 0]


def stacks(program: str) -> list[list[str]]:
    """Return the stack after every instruction of a program: what the program up to there leaves.

    Values are written as ``cadmus run`` prints them, the top last. A call that precedes its definition runs
    as much of the definition as there is, and gives NAN before.
    """
    stacks = [step.stack for step in trace(program)]
    if len(stacks) < len(program):
        # Definitions and what follows an end are not executed.
        stacks = [run(program[: end + 1]).outputs for end in range(len(program))]
    return [[show(value) for value in stack] for stack in stacks]


class _BudgetSpent(Exception):
    """The running call may execute no further instruction."""


class _VM:
    def __init__(self, program: str, watch: Callable[[Step], None] | None = None) -> None:
        self.program = program
        self.top, self.subroutines = isa.positions(program)
        self.watch = watch
        self.executed_in_calls = 0

    def execute(
        self, body: list[int], stack: list[Value], current: int | None = None, depth: int = 0
    ) -> None:
        """Execute the instructions at the positions ``body``, of the subroutine ``current``, on ``stack``."""
        for position in body:
            symbol = self.program[position]
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
                self.watch(Step(symbol, position, depth, list(stack)))

    def _call(self, subroutine: int, arguments: list[Value], depth: int) -> Value:
        exhausted = depth == isa.MAX_CALL_DEPTH or self.executed_in_calls >= isa.CALL_BUDGET
        if exhausted or subroutine >= len(self.subroutines):
            return NAN
        stack = list(arguments)
        try:
            self.execute(self.subroutines[subroutine], stack, subroutine, depth + 1)
        except _BudgetSpent:
            return NAN
        return stack[-1] if stack else NAN

    def _calling(self, symbol: str, inputs: list[Value], current: int | None, depth: int) -> Value:
        name = isa.BY_SYMBOL[symbol].name
        if name in _SUBROUTINES:
            return self._call(_SUBROUTINES[name], inputs, depth)
        if name == "recur":
            argument, condition = inputs
            if not is_true(condition):
                return argument
            return NAN if current is None else self._call(current, [argument], depth)
        sequence, accumulator = inputs[0], inputs[-1]
        if not isinstance(sequence, Sequence):
            return NAN
        elements: list[Any] = []
        for element in sequence:
            result = self._call(0, [accumulator, element] if name == "fold" else [element], depth)
            if result is NAN or (name == "map" and not isinstance(result, Number)):
                return NAN
            if name == "map":
                elements.append(result)
            elif name == "filter" and is_true(result):
                elements.append(element)
            accumulator = result
        return accumulator if name == "fold" else Sequence(elements)


_CALLING = frozenset(row.symbol for row in isa.INSTRUCTIONS if row.group in ("calls", "higher order"))
_SUBROUTINES = {"call 0": 0, "call 1": 1, "call 2": 2, "call 0 with two": 0, "call 1 with two": 1}
_EFFECTS = {row.symbol: (row.inputs, row.outputs) for row in isa.INSTRUCTIONS}


def _integer(value: int) -> Number | None:
    return Number(value) if isa.INTEGER_MIN <= value <= isa.INTEGER_MAX else NAN


def _sequence(elements: list[Number] | tuple[Number, ...]) -> Value:
    return Sequence(elements) if len(elements) <= isa.MAX_SEQUENCE_LENGTH else NAN


def _literal(value: Value) -> Callable[[], tuple[Value]]:
    outputs = (value,)
    return lambda: outputs


def _elementwise(function: Callable[..., Number | None]) -> Callable[..., tuple[Value]]:
    """Lift a function of integers to sequences of equal length; an integer broadcasts."""

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
    """Lift a function of plain values element-wise; results have no decoration, None is NAN."""

    def on_numbers(*numbers: Number) -> Number | None:
        result = function(*[number.value for number in numbers])
        return NAN if result is None else _integer(int(result))

    return _elementwise(on_numbers)


def _typed(function: Callable[..., Value], *types: type) -> Callable[..., tuple[Value]]:
    """Return NAN unless the inputs have these types."""
    return lambda *inputs: (function(*inputs) if all(map(isinstance, inputs, types)) else NAN,)


def _keep(sequence: Sequence, mask: Sequence) -> Value:
    if len(sequence) != len(mask):
        return NAN
    return Sequence(element for element, keep in zip(sequence, mask, strict=True) if keep.value != 0)


def _range(length: Number) -> Value:
    return Sequence(map(Number, range(length.value))) if length.value <= isa.MAX_SEQUENCE_LENGTH else NAN


_value = attrgetter("value")
_BY_NAME: dict[str, Callable[..., tuple[Value, ...]]] = {
    **{row.name: _literal(Number(row.literal)) for row in isa.INSTRUCTIONS if row.literal is not None},
    "empty": _literal(Sequence()),
    "add": _arithmetic(lambda a, b: a + b),
    "subtract": _arithmetic(lambda a, b: a - b),
    "multiply": _arithmetic(lambda a, b: a * b),
    "divide": _arithmetic(lambda a, b: a // b if b else None),
    "modulo": _arithmetic(lambda a, b: a % b if b else None),
    "maximum": _arithmetic(max),
    "minimum": _arithmetic(min),
    "less": _arithmetic(lambda a, b: a < b),
    "greater": _arithmetic(lambda a, b: a > b),
    "equal": _arithmetic(lambda a, b: a == b),
    "and": _arithmetic(lambda a, b: a != 0 and b != 0),
    "or": _arithmetic(lambda a, b: a != 0 or b != 0),
    "not": _arithmetic(lambda a: a == 0),
    "truth": _arithmetic(lambda a: a != 0),
    "successor": _arithmetic(lambda a: a + 1),
    "halve": _arithmetic(lambda a: a // 2),
    "negate": _arithmetic(lambda a: -a),
    "absolute": _arithmetic(abs),
    "even": _arithmetic(lambda a: a % 2 == 0),
    "duplicate": lambda a: (a, a),
    "drop": lambda a: (),
    "swap": lambda a, b: (b, a),
    "over": lambda a, b: (a, b, a),
    "rotate": lambda a, b, c: (b, c, a),
    "choose": lambda c, a, b: (a if is_true(c) else b,),
    "append": _typed(lambda s, a: _sequence((*s, a)), Sequence, Number),
    "concatenate": _typed(lambda s, z: _sequence((*s, *z)), Sequence, Sequence),
    "index": _typed(lambda s, a: s[a.value] if -len(s) <= a.value < len(s) else NAN, Sequence, Number),
    "length": _typed(lambda s: _integer(len(s)), Sequence),
    "sum": _typed(lambda s: _integer(sum(map(_value, s))), Sequence),
    "largest": _typed(lambda s: max(s, key=_value, default=NAN), Sequence),
    "smallest": _typed(lambda s: min(s, key=_value, default=NAN), Sequence),
    "all": _typed(lambda s: _integer(int(all(map(_value, s)))), Sequence),
    "sort": _typed(lambda s: Sequence(sorted(s, key=_value)), Sequence),
    "reverse": _typed(lambda s: Sequence(reversed(s)), Sequence),
    "keep": _typed(_keep, Sequence, Sequence),
    "range": _typed(_range, Number),
    "identical": lambda a, b: (Number(int(type(a) is type(b) and a == b)),),
    "decorate": _elementwise(
        lambda a, b: Number(a.value, b.value) if 0 <= b.value <= isa.MAX_DECORATION else NAN
    ),
    "decoration": _elementwise(lambda a: Number(a.decoration)),
}
_OPERATIONS = {isa.BY_NAME[name].symbol: operation for name, operation in _BY_NAME.items()}
"""Function of each instruction, from its inputs to its outputs. None of the inputs is NAN."""
