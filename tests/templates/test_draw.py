"""Pieces of programs and how they combine."""

from collections import Counter

import numpy as np
import pytest

from cadmus.config import Dataset
from cadmus.programs import Programs, interleave, join
from cadmus.templates import Draw
from cadmus.templates.draw import only_where, without_majority


def test_interleave_keeps_the_order_within_a_variant():
    drawn = [Programs.from_strings(["1", "2", "3"]), Programs.from_strings(["77", "88"])]
    mixed = interleave(np.array([1, 0, 0, 1, 0]), drawn)
    assert mixed.to_strings() == ["77", "1", "2", "88", "3"]


def test_mix_parts_keeps_the_parts_of_a_row_together():
    draw = Draw(np.random.default_rng(1), Dataset())

    def letters(symbols):
        return lambda k: tuple(join(draw.choice(k, symbols)) for _ in range(2))

    left, right = draw.mix_parts(1_000, letters(b"12"), letters(b"78"))
    pairs = Counter(zip(left.to_strings(), right.to_strings(), strict=True))
    assert len(pairs) == 8
    assert all((a in "12") == (b in "12") for a, b in pairs)


def test_pieces_join_row_by_row():
    left = Programs.from_strings(["1", "", "333"])
    marks = np.frombuffer(b"+-*", np.uint8)
    joined = join(left, b"\\x", marks, only_where(left, np.array([True, True, False])))
    assert joined.to_strings() == ["1\\x+1", "\\x-", "333\\x*"]
    with pytest.raises(ValueError, match="2 rows among pieces of 3"):
        join(left, Programs.from_strings(["1", "2"]))


def test_no_symbol_is_left_in_more_than_half_of_the_rows():
    draw = Draw(np.random.default_rng(0), Dataset())
    symbols = np.repeat(np.frombuffer(b"<=>", np.uint8), [7_000, 1_000, 2_000])
    rows = without_majority(draw, symbols)
    counts = Counter(symbols[rows].tolist())
    assert (counts[ord("=")], counts[ord(">")]) == (1_000, 2_000)
    assert counts[ord("<")] == pytest.approx(3_000, rel=0.05)
    for balanced in (symbols[5_000:], symbols[:10], symbols[:0]):
        assert without_majority(draw, balanced).tolist() == list(range(len(balanced)))
