"""The grammar of functions."""

from collections import Counter

import numpy as np
import pytest

from cadmus.config import Dataset
from cadmus.programs import join
from cadmus.templates import Draw, functions
from cadmus.templates.draw import definition
from cadmus.vm import compiled
from cadmus.vm.values import NUMBER
from tests.templates.conftest import COUNT


@pytest.mark.parametrize("function", ["SEQUENCE_PREDICATE", "NUMBER_PREDICATE"])
def test_predicates_return_0_and_1(function):
    draw = Draw(np.random.default_rng(1), Dataset())
    argument = draw.sequence(COUNT, (1, 4)) if "SEQUENCE" in function else join(draw.literal(COUNT))
    outcome = compiled.execute(
        join(definition(getattr(functions, function).draw(draw, COUNT)), argument, b"f")
    )
    assert np.all(outcome.kind == NUMBER)
    assert set(outcome.values[:, 0].tolist()) == {0, 1}


def test_a_grammar_lists_what_it_draws():
    grammar = functions.SEQUENCE_CHANGE
    draw = Draw(np.random.default_rng(1), Dataset())
    drawn = Counter(grammar.draw(draw, COUNT).to_strings())
    assert drawn.keys() <= grammar.texts.keys()
    assert sum(grammar.texts.values()) == pytest.approx(1)
    likely = {text: share for text, share in grammar.texts.items() if share * COUNT >= 100}
    for text, share in likely.items():
        assert drawn[text] == pytest.approx(share * COUNT, abs=6 * (share * COUNT) ** 0.5)
