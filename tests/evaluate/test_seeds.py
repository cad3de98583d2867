"""Intervals over seeds and test programs."""

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from cadmus.evaluate.intervals import mean_interval, programs_error


def test_the_interval_is_that_of_a_t_test():
    values = np.array([0.9, 0.92, 0.97])
    mean, low, high = mean_interval(values)
    expected = ttest_1samp(values, 0).confidence_interval()
    assert mean == pytest.approx(values.mean())
    assert (low, high) == pytest.approx(tuple(expected))


# Rounding: 0.7 - 0.5 is not 0.2.
@pytest.mark.parametrize("values", [[0.5], [1.0, 1.0], [0.2, 0.7 - 0.5]])
def test_without_spread_the_interval_is_that_of_the_programs(values):
    mean, *bounds = mean_interval(np.array(values))
    assert mean == pytest.approx(values[0])
    assert np.isnan(bounds).all()
    bounds = mean_interval(np.array(values), 0.03, 0.04)[1:]
    assert bounds == pytest.approx((values[0] - 0.05, values[0] + 0.05))


@pytest.mark.parametrize(("accuracy", "half"), [(0.0, 0.0038), (0.5, 0.0309), (1.0, 0.0038)])
def test_the_error_of_programs_is_never_0(accuracy, half):
    assert programs_error(accuracy, 1000) == pytest.approx(half, abs=1e-4)


@pytest.mark.parametrize("spread", [0.0, 0.01, 0.05], ids=lambda spread: f"seeds differ by {spread}")
def test_intervals_cover_the_truth_in_95_percent_of_simulated_studies(spread):
    rng = np.random.default_rng(0)
    studies, seeds, programs, truth = 1_000, 3, 400, 0.8
    covered = 0
    for _ in range(studies):
        # The seeds of a study share which programs are hard.
        hard = rng.random(programs)
        levels = rng.normal(truth, spread, (seeds, 1))
        means = (hard < levels).mean(1)
        _, low, high = mean_interval(means, programs_error(means.mean(), programs))
        covered += low <= truth <= high
    assert 0.94 <= covered / studies <= 0.985
    assert np.ptp(means) > 0 or spread == 0


def test_the_interval_of_a_difference_covers_the_truth():
    rng = np.random.default_rng(0)
    studies, seeds, programs = 1_000, 3, 400
    covered = 0
    for _ in range(studies):
        hard = rng.random(programs)
        base, other = ((hard < rng.normal(accuracy, 0.02, (seeds, 1))).mean(1) for accuracy in (0.7, 0.8))
        errors = (programs_error(means.mean(), programs) for means in (base, other))
        _, low, high = mean_interval(other - base, *errors)
        covered += low <= 0.1 <= high
    # Conservative, because the variants share programs.
    assert covered / studies >= 0.95
