"""Distributions of values and expressions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cadmus.config import Dataset, ExpressionTemplate, Values
from cadmus.dataset.sampler import sample
from cadmus.errors import InputError
from cadmus.templates.expressions import expressions
from cadmus.templates.values import ValueSampler, alias_table


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
