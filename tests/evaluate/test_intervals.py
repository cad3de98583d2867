"""Wilson intervals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cadmus.evaluate.intervals import as_text, wilson


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


@given(st.integers(1, 10**7).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_contains_the_fraction_and_is_symmetric(pair: tuple[int, int]) -> None:
    successes, n = pair
    low, high = wilson(successes, n)
    assert 0 <= low <= successes / n <= high <= 1
    assert wilson(n - successes, n) == pytest.approx((1 - high, 1 - low), abs=1e-12)


def test_wilson_of_no_trials_and_of_bad_counts() -> None:
    assert wilson(0, 0) == (0, 1)
    assert [list(side) for side in wilson(np.array([0, 5]), np.array([0, 5]))][1] == [1, 1]
    with pytest.raises(ValueError, match="between 0 and n"):
        wilson(3, 2)


def test_accuracy_as_text() -> None:
    assert as_text(0.5, 0.25, 1.0) == "50.0 % [25.0, 100.0]"
    assert as_text(None, 0.0, 1.0) == "none tested"
