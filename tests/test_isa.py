"""Instruction table: size, alternates of the paper's Table 2, and digest."""

import dataclasses
import re

import pytest

from cadmus import isa
from cadmus.errors import InputError

TABLE_2 = dict(zip("0123456789.+-*/%xn<>=!", "-[_+!#917^.*/%)}Lb?$~&", strict=True))
"""Alternate symbols by instruction, from the paper's Table 2."""


def test_there_are_65_instructions_of_one_printable_character() -> None:
    assert len(isa.BY_SYMBOL) == len(isa.INSTRUCTIONS) == isa.VOCABULARY_SIZE == 65
    assert all(re.fullmatch(r"[!-~]", symbol) for symbol in isa.BY_SYMBOL)


def test_alternates_match_the_paper() -> None:
    alternates = {row.symbol: row.alternate for row in isa.INSTRUCTIONS if row.alternate is not None}
    assert alternates == TABLE_2
    assert len(set(alternates.values())) == 22


def test_token_ids_are_the_positions_in_the_table() -> None:
    assert [isa.TOKEN_ID[row.symbol] for row in isa.INSTRUCTIONS] == list(range(65))
    assert isa.INSTRUCTIONS[isa.END_ID].symbol == isa.END == "."


@pytest.mark.parametrize(
    ("symbol", "inputs", "outputs"),
    [("+", 2, 1), ("r", 3, 3), ("_", 1, 0), ("7", 0, 1), (".", 0, 0), ("o", 2, 3)],
)
def test_effect_determines_inputs_and_outputs(symbol: str, inputs: int, outputs: int) -> None:
    assert (isa.BY_SYMBOL[symbol].inputs, isa.BY_SYMBOL[symbol].outputs) == (inputs, outputs)


@pytest.mark.parametrize("field", ["symbol", "name", "effect", "meaning"])
def test_digest_changes_with_every_part_of_an_instruction(monkeypatch, field: str) -> None:
    before = isa.digest()
    *others, last = isa.INSTRUCTIONS
    changed = dataclasses.replace(last, **{field: getattr(last, field) + "a"})
    monkeypatch.setattr(isa, "INSTRUCTIONS", (*others, changed))
    assert isa.digest() != before


def test_digest_changes_with_order_and_limits(monkeypatch) -> None:
    before = isa.digest()
    with monkeypatch.context() as patch:
        patch.setattr(isa, "INSTRUCTIONS", isa.INSTRUCTIONS[::-1])
        assert isa.digest() != before
    for limit in isa.LIMITS:
        with monkeypatch.context() as patch:
            patch.setitem(isa.LIMITS, limit, isa.LIMITS[limit] + 1)
            assert isa.digest() != before
    assert isa.digest() == before


@pytest.mark.parametrize(
    ("program", "top", "bodies"),
    [
        ("", "", []),
        ("34+", "34+", []),
        (r"9f\41-*;27=.", "9f27=", ["41-*"]),
        (r"\1\2;3;4\5.6;", "34", ["12", "5"]),
        (r"1.\2;", "1", []),
        ("\\;\\", "", ["", ""]),
    ],
)
def test_split_definitions(program: str, top: str, bodies: list[str]) -> None:
    assert isa.split_definitions(program) == (top, bodies)


def test_check_program_names_the_first_unknown_symbol() -> None:
    assert isa.check_program("34+7=.") == "34+7=."
    with pytest.raises(InputError, match=r"unknown symbol 'q' at position 3 of the program '34q\^'"):
        isa.check_program("34q^")
