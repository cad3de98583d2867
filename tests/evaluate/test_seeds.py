"""Intervals over seeds."""

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from cadmus.evaluate.seeds import mean_interval


def test_the_interval_is_that_of_a_t_test():
    values = np.array([0.9, 0.92, 0.97])
    mean, low, high = mean_interval(values)
    expected = ttest_1samp(values, 0).confidence_interval()
    assert mean == pytest.approx(values.mean())
    assert (low, high) == pytest.approx(tuple(expected))


def test_one_seed_has_no_interval():
    mean, low, high = mean_interval(np.array([0.5]))
    assert mean == 0.5
    assert np.isnan(low)
    assert np.isnan(high)


def test_equal_values_have_an_interval_of_length_0():
    assert mean_interval(np.array([1.0, 1.0])) == (1.0, 1.0, 1.0)
