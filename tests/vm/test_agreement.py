"""Both VMs give the same outputs and truth on every program."""

from collections import Counter
from collections.abc import Callable
from typing import ClassVar

import pytest

from cadmus import isa
from cadmus.programs import Programs
from cadmus.vm import compiled, reference
from dev import fuzz


def assert_agreement(expected: dict[str, reference.Result]) -> None:
    batch = Programs.from_strings(expected)
    truths = compiled.are_true(batch).tolist()
    results = zip(compiled.outputs(batch), truths, strict=True)
    for (program, result), (outputs, true) in zip(expected.items(), results, strict=True):
        assert (outputs, true) == result, program
        # A number and a sequence are both tuples.
        assert list(map(type, outputs)) == list(map(type, result.outputs)), program


class CountingVM(reference._VM):
    """The reference VM, counting what it executes on inputs without NAN."""

    executed: ClassVar[Counter[str]] = Counter()

    def _calling(self, symbol, inputs, current, depth):
        value = super()._calling(symbol, inputs, current, depth)
        self.executed[symbol] += 1
        self.executed[f"{symbol} gives a value"] += value is not reference.NAN
        return value

    def _call(self, subroutine, arguments, depth):
        before = self.executed_in_calls
        self.executed["too deep"] += depth == isa.MAX_CALL_DEPTH
        self.executed["undefined"] += subroutine >= len(self.subroutines)
        value = super()._call(subroutine, arguments, depth)
        self.executed["budget spent"] += before < self.executed_in_calls == isa.CALL_BUDGET
        return value


def counting(symbol: str, operation: Callable) -> Callable:
    def counted(*inputs):
        CountingVM.executed[symbol] += 1
        return operation(*inputs)

    return counted


@pytest.fixture(scope="module")
def sampled() -> dict[str, reference.Result]:
    """Many programs and their results on the reference VM."""
    programs = [program for chunk in range(4) for program in fuzz.programs_of(20, chunk)]
    with pytest.MonkeyPatch.context() as patch:
        for symbol, operation in reference._OPERATIONS.items():
            patch.setitem(reference._OPERATIONS, symbol, counting(symbol, operation))
        patch.setattr(reference, "_VM", CountingVM)
        return {program: reference.run(program) for program in programs}


def test_the_vms_agree_on_many_programs(sampled: dict[str, reference.Result]) -> None:
    assert_agreement(sampled)


def test_the_sampled_programs_reach_every_part_of_the_vm(sampled: dict[str, reference.Result]) -> None:
    calls = [*reference._CALLING, *(f"{symbol} gives a value" for symbol in reference._CALLING)]
    for reached in (*reference._OPERATIONS, *calls, "too deep", "undefined", "budget spent"):
        assert CountingVM.executed[reached] >= 200, reached


def test_the_vms_execute_as_many_instructions(sampled: dict[str, reference.Result]) -> None:
    executed = []
    for program in sampled:
        vm = reference._VM(program)
        vm.execute(vm.top, [])
        executed.append(len(vm.top) + vm.executed_in_calls)
    assert compiled.count_executed(Programs.from_strings(sampled)).tolist() == executed


def literal(value: int) -> str:
    """A program of literals and arithmetic that leaves ``value``, which may be the smallest integer."""
    if value < 0:
        return literal(-(value + 1)) + "~1-"
    return "0" + "".join(f"t*{digit}+" for digit in str(value))


EDGES = [
    isa.INTEGER_MIN,
    isa.INTEGER_MIN + 1,
    -(2**16),
    -46_341,
    -3,
    -1,
    0,
    1,
    2,
    46_340,
    46_341,
    isa.INTEGER_MAX,
]


@pytest.mark.parametrize("symbol", "+-*/%xn<>=&|:!?'B~ae")
def test_the_vms_agree_at_the_edges_of_the_integers(symbol: str) -> None:
    programs = [literal(a) + literal(b) + symbol for a in EDGES for b in EDGES]
    assert_agreement({program: reference.run(program) for program in programs})
