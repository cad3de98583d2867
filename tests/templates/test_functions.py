"""The grammar of functions."""

import numpy as np
import pytest

from cadmus.config import Dataset
from cadmus.programs import join
from cadmus.templates import Draw, functions
from cadmus.templates.draw import definition
from cadmus.vm import compiled
from tests.templates.conftest import COUNT


@pytest.mark.parametrize("function", [functions.sequence_predicate, functions.number_predicate])
def test_predicates_return_0_and_1(function):
    draw = Draw(np.random.default_rng(1), Dataset())
    argument = draw.sequence(COUNT, (1, 4)) if "sequence" in function.__name__ else join(draw.literal(COUNT))
    outcome = compiled.execute(join(definition(function(draw, COUNT)), argument, b"f"))
    assert np.all(outcome.kind == compiled.NUMBER)
    assert set(outcome.values[:, 0].tolist()) == {0, 1}
