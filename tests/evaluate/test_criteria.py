"""Expressions in programs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cadmus import isa
from cadmus.errors import Defect
from cadmus.evaluate.criteria import is_expression, second_expressions
from cadmus.programs import Programs
from cadmus.templates.expressions import expressions


def second(program: str) -> int:
    return second_expressions(Programs.from_strings([program])).item()


@given(st.lists(st.tuples(st.sampled_from([1, 3, 5]), st.integers(0, 10**6)), min_size=2, max_size=2))
def test_the_second_expression_is_found(drawn: list[tuple[int, int]]) -> None:
    tables = [expressions(length).programs for length, _ in drawn]
    first, other = (
        table.take(np.array([k % len(table)])).to_strings()[0]
        for table, (_, k) in zip(tables, drawn, strict=True)
    )
    assert second(f"{first}{other}=") == len(first)
    assert is_expression(first)
    assert is_expression(other)
    assert not is_expression(first + other)


def test_the_second_expression_may_use_any_instruction() -> None:
    assert second("34+4E_3+=") == 3
    assert second("7u3b1b$4-=") == 1
    assert second_expressions(Programs.from_strings(["12<", "34+7=", "77="])).tolist() == [1, 3, 1]
    assert second_expressions(Programs.from_strings([])).tolist() == []


@pytest.mark.parametrize("program", ["+=", "", "=", "7", "7=", "34+=", "1+2+="])
def test_a_program_without_two_expressions_is_a_defect(program: str) -> None:
    with pytest.raises(Defect, match="does not end in an expression and a comparator"):
        second_expressions(Programs.from_strings(["34+7=", program]))


@given(st.text("".join(isa.BY_SYMBOL), max_size=10))
def test_an_expression_leaves_one_value_and_pops_none_from_below(instructions: str) -> None:
    depth = lowest = 0
    for symbol in instructions:
        lowest = min(lowest, depth - isa.BY_SYMBOL[symbol].inputs)
        depth += isa.BY_SYMBOL[symbol].outputs - isa.BY_SYMBOL[symbol].inputs
    assert is_expression(instructions) == (lowest == 0 and depth == 1)
