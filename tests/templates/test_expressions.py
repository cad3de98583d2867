"""Enumerated and composed expressions."""

from collections import Counter

import numpy as np
import pytest

from cadmus.config import OPERATORS
from cadmus.programs import Programs, join
from cadmus.templates.expressions import expressions
from cadmus.vm import compiled, reference
from cadmus.vm.values import NUMBER


def test_five_instruction_expressions_are_enumerated():
    table = expressions(5)
    # Of 98,000, the others are NAN.
    assert len(table.values) == 98_000 - 6_700
    distinct = np.unique(table.values)
    assert (len(distinct), distinct[0], distinct[-1]) == (237, -81, 729)


@pytest.mark.parametrize("length", [1, 3, 5, 7])
@pytest.mark.parametrize("operators", [OPERATORS, "+-", "%"])
def test_sampled_expressions_have_the_requested_value(length, operators):
    table = expressions(length, operators)
    values = np.unique(table.values)
    texts = table.sample(np.random.default_rng(1), values).to_strings()
    assert {len(text) for text in texts} == {length}
    assert set("".join(texts)) <= set("0123456789" + operators)
    for text, value in zip(texts, values, strict=True):
        (output,) = reference.run(text).outputs
        assert output.value == value
    assert table.extent == (values[0], values[-1])
    assert table.count(values).sum() == table.before[-1]
    with pytest.raises(ValueError, match="-730"):
        table.sample(np.random.default_rng(1), np.array([-730]))


@pytest.mark.parametrize("operator", ["-", "/"])
def test_composed_expressions_match_an_enumeration(operator):
    shapes = ("ddododo", "ddoddoo", "dddoodo", "dddodoo", "ddddooo")
    digits = [
        Programs.from_strings([f"{number:04}"[place] for number in range(10_000)]) for place in range(4)
    ]
    enumerated = []
    for shape in shapes:
        left = iter(digits)
        outcome = compiled.execute(join(*(next(left) if at == "d" else operator.encode() for at in shape)))
        enumerated.append(outcome.values[outcome.kind == NUMBER, 0])
    values, counts = np.unique(np.concatenate(enumerated), return_counts=True)
    table = expressions(7, operator)
    assert np.array_equal(np.unique(table.values), values)
    assert np.array_equal(table.count(values), counts)
    # Uniform among those of a value: no text is favored.
    drawn = table.sample(np.random.default_rng(1), np.full(20_000, values[0])).to_strings()
    frequency = Counter(drawn)
    assert max(frequency.values()) < 5 * max(20_000 / counts[0], 4)
