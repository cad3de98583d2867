"""Distributions of values and expressions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cadmus.config import OPERATORS, Dataset, ExpressionTemplate, Values
from cadmus.dataset.sampler import sample
from cadmus.errors import InputError
from cadmus.templates import Draw
from cadmus.templates.expressions import expressions
from cadmus.templates.values import ValueSampler, alias_table
from cadmus.vm import compiled


@settings(max_examples=20)
@given(
    operators=st.sets(st.sampled_from(OPERATORS), min_size=1).map("".join),
    lengths=st.sets(st.sampled_from([1, 3, 5, 7]), min_size=1).map(sorted),
    low=st.integers(-80, 9),
    width=st.integers(10, 100),
)
def test_values_stay_within_the_range(operators, lengths, low, width):
    dataset = Dataset.model_validate({"values": {"low": low, "high": low + width}})
    draw = Draw(np.random.default_rng(1), dataset)
    of = ExpressionTemplate(expression_lengths=lengths, operators=operators)
    try:
        values = draw.values(200, of)
    except InputError:
        extents = [expressions(length, operators).extent for length in lengths]
        assert all(low + width < smallest or largest < low for smallest, largest in extents)
        return
    assert low <= values.min() <= values.max() <= low + width
    drawn = draw.expression(values, of)
    outcome = compiled.execute(drawn)
    assert np.array_equal(outcome.values[:, 0], values)
    assert np.all(outcome.count == 1)
    assert set(drawn.lengths.tolist()) <= set(lengths)


def test_frequencies_of_values_and_lengths_are_as_configured():
    lengths, weights, limits = [1, 3, 5], [1, 2, 5], Values(low=-5, high=12, uniform_fraction=0.25)
    of = ExpressionTemplate(expression_lengths=lengths, length_weights=weights, operators="+-%")
    numbers, rng, n = ValueSampler(of, limits), np.random.default_rng(1), 400_000
    values = numbers.values(rng, n)
    drawn = numbers.expressions(rng, values)
    possible = np.arange(-5, 13)
    # The natural part follows from listing; the uniform part is the same for each value.
    expected = np.zeros((len(lengths), len(possible)))
    for place, length in enumerate(lengths):
        table = expressions(length, "+-%")
        listed = np.array([np.sum(table.values == value) for value in possible])
        expected[place] = 0.75 * weights[place] / 8 * listed / listed.sum()
    has = np.array([[value in expressions(length, "+-%").values for value in possible] for length in lengths])
    shares = has * np.array(weights)[:, None]
    expected += 0.25 / len(possible) * shares / shares.sum(axis=0)
    for place, length in enumerate(lengths):
        found = np.bincount(values[drawn.lengths == length] + 5, minlength=len(possible))
        deviation = np.sqrt(n * expected[place] * (1 - expected[place])) + 1e-9
        assert np.max(np.abs(found - n * expected[place]) / deviation) < 4.5, length


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=60))
def test_the_alias_table_has_the_requested_probabilities(shares):
    keep, other = alias_table(np.array(shares))
    found = keep + np.bincount(other, 1 - keep, len(shares))
    assert np.allclose(found / len(shares), np.array(shares) / sum(shares), atol=1e-12)
    assert keep.min() >= 0


def test_a_range_without_expressions_is_an_error():
    dataset = Dataset.model_validate({"values": {"low": 800, "high": 900}})
    with pytest.raises(InputError, match=r"dataset\.values: no expression of 5 .*-81 to 729"):
        sample(dataset, 1, "less_greater", "train", 0, 10)
