"""Differences between the VMs are found and shrunk."""

import pytest

from cadmus.vm import reference
from dev import fuzz
from tests.commands import python


def plant(monkeypatch, symbol: str) -> None:
    """Let one instruction of the reference VM return NAN."""
    outputs = reference._EFFECTS[symbol][1]
    monkeypatch.setitem(reference._OPERATIONS, symbol, lambda *inputs: (reference.NAN,) * outputs)


def test_the_tool_counts_programs_that_agree() -> None:
    done = python("-m", "dev.fuzz", "--programs", 3000, "--seed", 7)
    assert done.stdout.startswith("the VMs agree on 3,000 programs of seed 7: ")


def test_seed_and_chunk_determine_the_programs() -> None:
    programs = fuzz.programs_of(1, 0)
    assert len(programs) == fuzz.CHUNK
    assert programs == fuzz.programs_of(1, 0)
    assert len(set(programs) & set(fuzz.programs_of(1, 1))) < fuzz.CHUNK / 4


@pytest.mark.parametrize("symbol", ["n", "V", "o", '"'])
def test_a_planted_difference_is_found_and_shrunk(monkeypatch, symbol: str) -> None:
    plant(monkeypatch, symbol)
    program = fuzz.try_chunk((0, 0, fuzz.CHUNK))
    assert program in fuzz.programs_of(0, 0)
    shortest = fuzz.shrink(program)
    assert symbol in shortest
    assert not fuzz.agree(program)
    for place in range(len(shortest)):
        assert fuzz.agree(shortest[:place] + shortest[place + 1 :])


def test_a_planted_difference_of_the_truth_alone_is_found(monkeypatch) -> None:
    are_true = fuzz.compiled.are_true
    monkeypatch.setattr(fuzz.compiled, "are_true", lambda batch: ~are_true(batch))
    assert fuzz.shrink(fuzz.try_chunk((0, 0, 100))) == ""
