"""Means over trainings that differ in their seed."""

import numpy as np


def mean_interval(values: np.ndarray) -> tuple[float, float, float]:
    """Return the mean of one value per seed, and the bounds of its 95% interval by Student's t.

    Both bounds are NaN for a single seed.

    Args:
        values: float64, shape (seeds,), at least one.
    """
    from scipy.stats import t

    mean, n = float(values.mean()), len(values)
    if n == 1:
        return mean, np.nan, np.nan
    half = float(t.ppf(0.975, n - 1) * values.std(ddof=1) / np.sqrt(n))
    return mean, mean - half, mean + half
