"""Wilson and bootstrap intervals, intervals over seeds, and their text."""

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from cadmus.evaluate.statistics.intervals import (
    RESAMPLES,
    Z,
    as_text,
    bootstrap,
    gap_as_text,
    gap_interval,
    mean_interval,
    percent,
    programs_error,
    resampled,
    wilson,
)


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [
        # Newcombe (1998), Table I, the score method without continuity correction.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (10, 10, 0.7225, 1.0),
    ],
)
def test_wilson_matches_published_intervals(successes: int, n: int, low: float, high: float) -> None:
    assert wilson(successes, n) == pytest.approx((low, high), abs=5e-5)


def test_wilson_of_no_trials_and_of_bad_counts() -> None:
    assert wilson(0, 0) == (0, 1)
    assert [list(side) for side in wilson(np.array([0, 5]), np.array([0, 5]))][1] == [1, 1]
    with pytest.raises(ValueError, match="between 0 and n"):
        wilson(3, 2)


@pytest.mark.parametrize(
    ("fraction", "text"),
    [
        (0.9925, "99.3%"),
        (0.00049, "0.0%"),
        (1.0, "100.0%"),
        (0.9995, "100.0%"),
        (np.float64(0.1235), "12.4%"),
        (-0.0125, "-1.3%"),
        (-0.0001, "0.0%"),
        (-0.0, "0.0%"),
    ],
)
def test_percentages_are_rounded_half_up(fraction: float, text: str) -> None:
    assert percent(fraction) == text
    assert percent(fraction, "") == text[:-1]


def test_signs() -> None:
    signs = [percent(gap, " pp", signed=True) for gap in (0.25, -0.25, 0.0, 0.0001, -0.0001)]
    assert signs == ["+25.0 pp", "-25.0 pp", "0.0 pp", "0.0 pp", "0.0 pp"]


def test_accuracy_as_text() -> None:
    assert as_text(0.5, 0.25, 1.0) == "50.0% [25.0, 100.0]"
    assert as_text(0.8605, 0.84449, 0.9925) == "86.1% [84.4, 99.3]"
    assert as_text(None, 0.0, 1.0) == "none tested"
    # An interval has a width as text, too.
    assert as_text(0.0, 0.0, 0.0004) == "0.0% [0.0, 0.1]"
    assert gap_as_text(0.1, 0.0999, 0.1001) == "+10.0 [+9.9, +10.1]"


def single(right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the arguments of the bootstrap for clusters of one program each."""
    return right[:, None].astype(float), np.ones(len(right))


def width(correct: np.ndarray, programs: np.ndarray) -> float:
    low, high = bootstrap(correct, programs)
    return (high - low).item()


@pytest.mark.parametrize(("accuracy", "n"), [(0.5, 400), (0.9, 400), (0.3, 2_000), (0.97, 2_000)])
def test_the_interval_of_independent_programs_agrees_with_wilson(accuracy: float, n: int) -> None:
    right = np.random.default_rng(1).random(n) < accuracy
    low, high = wilson(right.sum(), n)
    assert width(*single(right)) == pytest.approx(high - low, rel=0.1)
    assert np.ravel(bootstrap(*single(right))) == pytest.approx(np.array([low, high]), abs=0.1 * (high - low))


def test_resamples_are_the_same_every_time_and_for_all_measures() -> None:
    rng = np.random.default_rng(0)
    right = rng.random(140) < 0.4
    three = np.column_stack([right, right, ~right]).astype(float)
    programs = np.ones(140)
    drawn = resampled(three, programs)
    assert drawn.shape == (RESAMPLES, 3)
    np.testing.assert_array_equal(drawn, resampled(three, programs))
    np.testing.assert_array_equal(drawn[:, 0], drawn[:, 1])
    np.testing.assert_allclose(drawn[:, 0], 1 - drawn[:, 2])
    assert drawn[:, 0].mean() == pytest.approx(right.mean(), abs=0.01)


def test_parts_do_not_change_the_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    given = single(np.arange(300) % 3 == 0)
    at_once = resampled(*given)
    monkeypatch.setattr("cadmus.evaluate.statistics.intervals._WEIGHTS_AT_ONCE", 100_000)
    np.testing.assert_array_equal(resampled(*given), at_once)


@pytest.mark.parametrize("size", [4, 9])
def test_clusters_of_equal_outcomes_widen_the_interval(size: int) -> None:
    right = np.random.default_rng(2).random(500) < 0.7
    clustered = size * right[:, None].astype(float), np.full(500, size)
    alone = single(np.repeat(right, size))
    assert width(*clustered) / width(*alone) == pytest.approx(np.sqrt(size), rel=0.1)


def test_all_right_and_all_wrong_have_the_interval_of_wilson_over_clusters() -> None:
    programs = np.array([6, 3, 0, 12])
    correct = np.column_stack([programs, 0 * programs])
    low, high = bootstrap(correct, programs)
    assert [low[0], high[0]] == pytest.approx(np.ravel(wilson(3, 3)))
    assert [low[1], high[1]] == pytest.approx(np.ravel(wilson(0, 3)))


def test_gaps_of_one_prediction_vanish_and_of_constants_do_not() -> None:
    rng = np.random.default_rng(0)
    programs, hits = np.ones(200), rng.random(200) < 0.5
    assert gap_interval(np.column_stack([hits, hits]), programs) == (0, 0)
    others = rng.random(200) < 0.7
    low, high = gap_interval(np.column_stack([hits, others]), programs)
    deviation = (hits.astype(float) - others).std() / np.sqrt(200)
    assert high - low == pytest.approx(2 * Z * deviation, rel=0.06)
    right, wrong = np.ones(200), np.zeros(200)
    low, high = gap_interval(np.column_stack([right, wrong]), programs)
    assert (low, high) == (pytest.approx(wilson(200, 200)[0]), 1)
    low, high = gap_interval(np.column_stack([right, right]), programs)
    assert (low, high) == (pytest.approx(wilson(200, 200)[0] - 1), 0)


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
