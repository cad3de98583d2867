"""Means over trainings that differ in their seed and share their test programs."""

import numpy as np

from cadmus.evaluate.intervals import wilson


def programs_error(accuracy: float, n: int) -> float:
    """Return the half-width of the 95% interval of an accuracy on ``n`` sampled programs.

    It is the distance to the farther of Wilson's bounds, so it is not 0 at 0% or 100%.
    """
    low, high = wilson(accuracy * n, n)
    return float(max(accuracy - low, high - accuracy))


def mean_interval(values: np.ndarray, *errors: float) -> tuple[float, float, float]:
    """Return the mean of one value per seed, and its 95% interval over seeds and programs.

    All seeds share their test programs. So their spread does not show the sampling error of the programs,
    and more seeds do not reduce it. The squared half-width is that of Student's t over the seeds plus the
    squares of ``errors``.

    Args:
        values: float64, shape (seeds,), at least one.
        errors: half-widths from :func:`programs_error`, none if unknown. Pass those of both variants for
            their difference. This ignores that the variants share programs, so it is conservative: which
            programs both solve is not in the results of a study.

    Returns:
        Mean, low and high. Both bounds are NaN without errors if there is one seed or all values are equal.
    """
    from scipy.stats import t

    mean, seeds = float(values.mean()), len(values)
    squared = sum(error**2 for error in errors)
    # Rounding is not spread.
    if not np.allclose(values, mean, rtol=1e-9, atol=1e-12):
        squared += float(t.ppf(0.975, seeds - 1)) ** 2 * float(values.var(ddof=1)) / seeds
    half = float(np.sqrt(squared)) if squared else np.nan
    return mean, mean - half, mean + half
