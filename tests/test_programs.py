"""Pieces of a batch of programs."""

import tracemalloc

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cadmus import isa
from cadmus.programs import Programs, join, offsets_of

SYMBOLS = "".join(isa.BY_SYMBOL)


def test_token_ids_are_those_of_the_instruction_table() -> None:
    ids = list(isa.TOKEN_ID.values())
    assert Programs.from_strings([SYMBOLS, "1"]).to_tokens().tolist() == [ids, [2] + [isa.END_ID] * 64]


@given(st.lists(st.tuples(st.text(SYMBOLS, max_size=12), st.floats(0, 1)), max_size=20), st.data())
def test_prefix_and_suffix_make_the_program(drawn: list[tuple[str, float]], data: st.DataObject) -> None:
    texts = [text for text, _ in drawn]
    programs = Programs.from_strings(texts)
    cuts = np.array([round(where * len(text)) for text, where in drawn], np.int64)
    prefixes, suffixes = programs.prefixes(cuts), programs.suffixes(cuts)
    assert prefixes.to_strings() == [text[:cut] for text, cut in zip(texts, cuts, strict=True)]
    assert suffixes.to_strings() == [text[cut:] for text, cut in zip(texts, cuts, strict=True)]
    assert join(prefixes, suffixes).to_strings() == texts
    rows = data.draw(st.lists(st.integers(0, max(0, len(texts) - 1)), max_size=len(texts)))
    taken = suffixes.take(np.array(rows, np.int64))
    assert taken.to_strings() == [texts[row][cuts[row] :] for row in rows]


@given(st.lists(st.tuples(st.text("12+", max_size=6), st.text("12+", max_size=3)), max_size=9))
def test_contain_is_the_operator_in(rows: list[tuple[str, str]]) -> None:
    programs, pieces = (Programs.from_strings([row[side] for row in rows]) for side in (0, 1))
    assert programs.contain(pieces).tolist() == [piece in program for program, piece in rows]


@given(st.lists(st.text("12+", max_size=5), max_size=6))
def test_all_prefixes_come_program_by_program(texts: list[str]) -> None:
    prefixes, row, length = Programs.from_strings(texts).all_prefixes()
    assert prefixes.to_strings() == [text[:k] for text in texts for k in range(1, len(text) + 1)]
    assert [texts[i][:k] for i, k in zip(row, length, strict=True)] == prefixes.to_strings()


def test_few_and_many_instructions_are_copied_alike(monkeypatch) -> None:
    programs = Programs.from_strings(["34+7=", "", "12<", "u1b2b"])
    rows, starts = np.array([3, 0, 0, 1]), np.array([1, 0, 2, 5], np.uint8)
    few = [programs.take(rows).to_strings(), programs.suffixes(starts).to_strings()]
    monkeypatch.setattr("cadmus.programs.FEW", 0)
    assert few == [programs.take(rows).to_strings(), programs.suffixes(starts).to_strings()]
    assert few[1] == ["4+7=", "", "<", ""]


def test_taking_programs_does_not_read_the_others() -> None:
    lengths = np.full(2_000_000, 20, np.int64)
    programs = Programs(np.zeros(lengths.sum(), np.uint8), offsets_of(lengths))
    rows = np.arange(0, len(programs), 20_000)
    programs.take(rows)
    tracemalloc.start()
    try:
        taken = programs.take(rows)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert taken.lengths.tolist() == [20] * 100
    assert peak < 100_000


def test_the_representation_shows_the_first_programs() -> None:
    assert repr(Programs.from_strings([])) == "<Programs: 0 programs>"
    assert repr(Programs.from_strings(["34+7=", ""])) == "<Programs: 2 programs, '34+7=', ''>"
    many = Programs.from_strings(["1" * 100, *"23456"])
    assert repr(many) == "<Programs: 6 programs, '111111111111...1111111111111', '2', '3', …>"


def test_programs_round_trip_through_arrow():
    texts = ["", "1", "34+7=", "", "u2b"]
    programs = Programs.from_strings(texts)
    assert Programs.from_arrow(programs.to_arrow()).to_strings() == texts
    assert Programs.from_arrow(programs.to_arrow().slice(1, 3)).to_strings() == texts[1:4]
