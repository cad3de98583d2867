"""Instruction table: size, alternates of the paper's Table 2, and digest."""

import dataclasses
import re

import pytest

from cadmus import isa

TABLE_2 = dict(zip("0123456789.+-*/%xn<>=!", "-[_+!#917^.*/%)}Lb?$~&", strict=True))
"""Alternate symbols by instruction, from the paper's Table 2."""


def test_there_are_65_instructions_of_one_printable_character() -> None:
    assert len(isa.BY_SYMBOL) == len(isa.INSTRUCTIONS) == isa.VOCABULARY_SIZE == 65
    assert all(re.fullmatch(r"[!-~]", symbol) for symbol in isa.BY_SYMBOL)


def test_alternates_match_the_paper() -> None:
    alternates = {row.symbol: row.alternate for row in isa.INSTRUCTIONS if row.alternate is not None}
    assert alternates == TABLE_2
    assert len(set(alternates.values())) == 22


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
