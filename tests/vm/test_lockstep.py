"""Number programs in lock step, against the reference VM and Python's integers."""

import random

import pytest

from cadmus import isa
from cadmus.programs import Programs
from cadmus.vm import compiled, lockstep, reference
from dev import fuzz


def assert_agreement(programs: list[str]) -> None:
    assert fuzz.run_compiled(programs) == list(map(reference.run, programs))


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
def test_binary_instructions_match_integers_around_every_edge(symbol: str) -> None:
    """The float64 of the lock step against the integers of Python, for each pair of hard numbers."""
    pairs = [(a, b) for a in EDGES for b in EDGES]
    batch = Programs.from_strings([literal(a) + literal(b) + symbol for a, b in pairs])
    outcome = compiled.execute(batch)
    for (a, b), kind, value in zip(pairs, outcome.kind, outcome.values[:, 0].tolist(), strict=True):
        (expected,) = reference._OPERATIONS[symbol](reference.Number(a), reference.Number(b))
        assert (None if kind == compiled.NAN else value) == (expected and expected.value), (a, symbol, b)


@pytest.mark.parametrize("symbol", "!?'B~ae")
def test_unary_instructions_match_the_reference_vm(symbol: str) -> None:
    assert_agreement([literal(a) + symbol for a in EDGES])


def test_only_number_programs_run_in_lock_step(monkeypatch) -> None:
    """Each program goes one way or the other, by its text, and the results are in order."""
    ran = []
    run = lockstep.run
    monkeypatch.setattr(lockstep, "run", lambda *batch: (ran.append(batch[2].tolist()), run(*batch)))
    programs = ["34+7=", "", "3I", "5.uu", "1;", "1" * lockstep.LONGEST, "73:", ".", "+"]
    batch = Programs.from_strings([*programs, "1" * (lockstep.LONGEST + 1)])
    assert_agreement(batch.to_strings())
    assert ran == 3 * [[0, 3, 5, 8]]


def test_programs_of_all_lengths_run_in_lock_step_together() -> None:
    rng = random.Random(3)
    programs = ["".join(rng.choices(fuzz.NUMBERS, k=length)) for length in range(81) for _ in range(7)]
    rng.shuffle(programs)
    assert_agreement(programs)
