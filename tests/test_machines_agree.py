r"""The readable and the compiled machine give the same outputs and verdicts on every program."""

import random
from collections import Counter
from collections.abc import Callable
from typing import ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cadmus import isa
from cadmus.checks import fuzz
from cadmus.programs import Programs
from cadmus.vm import compiled, lockstep, reference


def assert_agreement(expected: dict[str, reference.Result]) -> None:
    batch = Programs.from_strings(expected)
    verdicts = compiled.verdicts(batch).tolist()
    results = zip(compiled.outputs(batch), verdicts, strict=True)
    for (program, result), (outputs, true) in zip(expected.items(), results, strict=True):
        assert (outputs, true) == result, program
        # A number and a sequence are both tuples.
        assert list(map(type, outputs)) == list(map(type, result.outputs)), program


class CountingMachine(reference._VM):
    """The readable machine, which counts what it executes on inputs without NAN."""

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
        CountingMachine.executed[symbol] += 1
        return operation(*inputs)

    return counted


@pytest.fixture(scope="module")
def sampled() -> dict[str, reference.Result]:
    """Many programs and what the readable machine makes of them."""
    programs = [program for chunk in range(4) for program in fuzz.programs_of(20, chunk)]
    with pytest.MonkeyPatch.context() as patch:
        for symbol, operation in reference._OPERATIONS.items():
            patch.setitem(reference._OPERATIONS, symbol, counting(symbol, operation))
        patch.setattr(reference, "_VM", CountingMachine)
        return {program: reference.run(program) for program in programs}


def test_the_machines_agree_on_many_programs(sampled: dict[str, reference.Result]) -> None:
    assert_agreement(sampled)


def test_the_sampled_programs_reach_every_part_of_the_machine(sampled: dict[str, reference.Result]) -> None:
    calls = [*reference._CALLING, *(f"{symbol} gives a value" for symbol in reference._CALLING)]
    for reached in (*reference._OPERATIONS, *calls, "too deep", "undefined", "budget spent"):
        assert CountingMachine.executed[reached] >= 200, reached


pieces = st.one_of(
    st.text(fuzz.ALL, max_size=20),
    st.text("0123456789uIbEfghFGmwl", max_size=20),
    st.text(fuzz.RUNNING, max_size=10).map(lambda body: f"\\{body};"),
    st.sampled_from(["u1b2b3b", "44*I", "73:", "10/", r"\1-ER;9f", "E*E*E*E*E*"]),
)


@given(st.lists(st.lists(pieces, max_size=6).map("".join), min_size=1, max_size=20))
@settings(max_examples=200, deadline=None)
def test_the_machines_agree(programs: list[str]) -> None:
    assert_agreement({program: reference.run(program) for program in programs})


def literal(value: int) -> str:
    """A program of literals and arithmetic that leaves ``value``, which may be the smallest integer."""
    if value < 0:
        return literal(-(value + 1)) + "~1-"
    return "0" + "".join(f"t*{digit}+" for digit in str(value))


EDGES = sorted(
    {
        sign * base + step
        for sign in (-1, 1)
        for base in (0, 3, 10, 46_340, 2**16, 2**24, 2**30, 2**31 - 3)
        for step in (-2, -1, 0, 1, 2)
    }
    | {isa.INTEGER_MIN, isa.INTEGER_MIN + 1}
)


@pytest.mark.parametrize("symbol", "+-*/%xn<>=&|")
def test_lock_step_gives_what_integers_give_around_every_edge(symbol: str) -> None:
    """The float64 of the lock step against the integers of Python, for each pair of hard numbers."""
    pairs = [(a, b) for a in EDGES for b in EDGES]
    batch = Programs.from_strings([literal(a) + literal(b) + symbol for a, b in pairs])
    outcome = compiled.execute(batch)
    for (a, b), kind, value in zip(pairs, outcome.kind, outcome.values[:, 0].tolist(), strict=True):
        (expected,) = reference._OPERATIONS[symbol](reference.Number(a), reference.Number(b))
        assert (None if kind == compiled.NAN else value) == (expected and expected.value), (a, symbol, b)


@pytest.mark.parametrize("symbol", "!?'B~ae")
def test_lock_step_gives_what_integers_give_of_one_input(symbol: str) -> None:
    assert_agreement({literal(a) + symbol: reference.run(literal(a) + symbol) for a in EDGES})


def test_only_number_programs_run_in_lock_step(monkeypatch) -> None:
    """Each program goes one way or the other, by its text, and the results are in order."""
    ran = []
    run = lockstep.run
    monkeypatch.setattr(lockstep, "run", lambda *batch: (ran.append(batch[2].tolist()), run(*batch)))
    programs = ["34+7=", "", "3I", "5.uu", "1;", "1" * lockstep.LONGEST, "73:", ".", "+"]
    batch = Programs.from_strings([*programs, "1" * (lockstep.LONGEST + 1)])
    assert_agreement({program: reference.run(program) for program in batch.to_strings()})
    assert ran == 3 * [[0, 3, 5, 8]]


def test_programs_of_all_lengths_run_in_lock_step_together() -> None:
    rng = random.Random(3)
    programs = ["".join(rng.choices(fuzz.NUMBERS, k=length)) for length in range(81) for _ in range(7)]
    rng.shuffle(programs)
    assert_agreement({program: reference.run(program) for program in programs})
