"""The interface of the compiled VM: outcomes, outputs and unknown symbols."""

import numpy as np
import pytest

from cadmus import isa
from cadmus.errors import InputError
from cadmus.programs import Programs
from cadmus.vm import compiled, reference


def test_execute_describes_the_top_output() -> None:
    outcome = compiled.execute(Programs.from_strings(["", "10/", "9I1", "73:", "5u1b2Z*3:b", "1u"]))
    assert outcome.true.tolist() == [False, False, True, True, True, True]
    assert outcome.count.tolist() == [0, 1, 2, 1, 2, 2]
    assert outcome.kind.tolist() == [0, 0, 1, 1, 2, 2]
    assert outcome.length.tolist() == [0, 0, 0, 0, 2, 0]
    values = np.zeros((6, isa.MAX_SEQUENCE_LENGTH), int)
    values[2, 0], values[3, 0], values[4, :2] = 1, 7, [1, -2]
    decorations = np.zeros_like(values)
    decorations[3, 0], decorations[4, 1] = 3, 3
    np.testing.assert_array_equal(outcome.values, values)
    np.testing.assert_array_equal(outcome.decorations, decorations)
    assert (outcome.values.dtype, outcome.decorations.dtype) == (np.int32, np.uint8)


def test_a_batch_without_programs_has_no_outcome() -> None:
    assert compiled.are_true(Programs.from_strings([])).shape == (0,)
    assert compiled.outputs(Programs.from_strings([])) == []


def test_same_outputs_compares_all_of_every_output() -> None:
    pairs = {
        ("", ""): True,
        ("", "1"): False,
        ("1", "11-'"): True,
        ("12", "21"): False,
        ("12", "2"): False,
        ("112", "212"): False,
        ("12", "12+1s2s="): False,
        ("10/", "1u+"): False,
        ("10/", "20%"): True,
        ("73:", "7"): False,
        ("73:", "73:"): True,
        ("u", "0"): False,
        ("u1b", "1"): False,
        ("u1b2b", "u1b"): False,
        ("u1b0b", "u1b"): False,
        ("u1b2b", "u2b1bV"): True,
        ("u1b2b", "u1b23:b"): False,
        ("5u1b", "5u1b"): True,
        ("10/1", "u1"): False,
    }
    ours, theirs = zip(*pairs, strict=True)
    found = compiled.same_outputs(Programs.from_strings(ours), Programs.from_strings(theirs))
    assert dict(zip(pairs, found.tolist(), strict=True)) == pairs
    empty = Programs.from_strings([])
    assert compiled.same_outputs(empty, empty).tolist() == []


@pytest.mark.parametrize(
    ("batch", "program", "symbol", "position"),
    [(["q"], 0, "q", 1), (["12", "", "3q^"], 2, "q", 2), (["1.q"], 0, "q", 3), (["12", "1 2"], 1, " ", 2)],
)
def test_an_unknown_symbol_is_named(batch, program, symbol, position) -> None:
    with pytest.raises(InputError) as error:
        compiled.are_true(Programs.from_strings(batch))
    assert f"program {program}: unknown symbol {symbol!r} at position {position};" in str(error.value)
    with pytest.raises(InputError, match=f"unknown symbol '{symbol}' at position {position} of the program"):
        reference.run(batch[program])


def test_all_other_bytes_are_rejected() -> None:
    for byte in set(range(256)) - set("".join(isa.BY_SYMBOL).encode()):
        with pytest.raises(InputError):
            compiled.are_true(Programs(np.array([byte], np.uint8), np.array([0, 1])))
