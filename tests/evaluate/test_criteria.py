"""Expressions and definitions in programs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cadmus import isa
from cadmus.errors import Defect
from cadmus.evaluate.criteria import copies, inlines, is_expression, second_expressions, varies
from cadmus.programs import Programs
from cadmus.templates.expressions import expressions
from cadmus.vm import reference


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


@pytest.mark.parametrize(
    ("second", "copied"),
    [("2x6+1", False), ("1x6n2", True), ("29n6x", True), ("66x2n", False), ("29x60+n", True), ("5", False)],
)
def test_a_copy_shares_three_instructions_or_all_literals_or_is_longer(second: str, copied: bool) -> None:
    assert copies(second, "29x6n") == copied


SYMBOLS = st.text("\\\\;;12+fgFGhE*", min_size=1, max_size=14)


def value_of_last(program: str, written: str) -> object:
    """Call the last subroutine of a program with written arguments; all else than numbers is one value."""
    bodies = isa.split_definitions(program)[1]
    definitions = "".join(f"\\{body};" for body in bodies)
    names = ("fgh" if len(written) == 1 else "FG") + "..."
    call = names[len(bodies) - 1] if 0 < len(bodies) <= 3 and len(bodies) <= len(names.rstrip(".")) else ""
    outputs = reference.run(definitions + written + call).outputs
    value = getattr(outputs[0], "value", None) if outputs else None
    return value if isinstance(value, int) else None


@given(st.lists(st.tuples(SYMBOLS, SYMBOLS), min_size=1, max_size=4))
def test_definitions_are_found_in_all_programs_at_once(pairs: list[tuple[str, str]]) -> None:
    prompts, completions = (Programs.from_strings(texts) for texts in zip(*pairs, strict=True))
    expected = [
        len("".join(isa.split_definitions(completion)[1])) >= len(isa.split_definitions(prompt)[0])
        for prompt, completion in pairs
    ]
    assert inlines(prompts, completions).tolist() == expected
    # Also in a part of an array.
    assert inlines(prompts.take(np.arange(1)), completions.take(np.arange(1))).tolist() == expected[:1]


@given(st.lists(SYMBOLS, min_size=1, max_size=4))
def test_a_value_varies_if_each_argument_changes_it(texts: list[str]) -> None:
    found = varies(Programs.from_strings(texts)).tolist()
    for text, varied in zip(texts, found, strict=True):
        number = len(isa.split_definitions(text)[1])
        if 0 < number <= 2 and "FG"[number - 1] in text:
            grid = [[value_of_last(text, x + y) for y in "Z0259t"] for x in "Z0259t"]
            columns = [*zip(*grid, strict=True)]
            expected = any(len(set(column)) > 1 for column in columns) and any(
                len(set(row)) > 1 for row in grid
            )
        else:
            expected = len({value_of_last(text, x) for x in "0123456789tZ"}) > 1
        assert varied == expected, text
