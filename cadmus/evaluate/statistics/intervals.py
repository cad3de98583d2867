"""Confidence intervals of accuracies, and their text.

Programs are a sample. Those that ask about the same thing are right or wrong together, so a bootstrap
resamples these clusters; independent programs have Wilson's interval, which has a width at 0% and 100%, too.
The gap between two policies has the same resamples for both, so that what is hard for both cancels. Values of
several seeds have Student's t.
"""

from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Decimal
from functools import lru_cache

import numpy as np

Z = 1.959963984540054
"""The 97.5% quantile of the normal distribution, for 95% intervals."""
RESAMPLES = 2_000
_WEIGHTS_AT_ONCE = 1 << 22  # 32 MB as float64, in which they are multiplied


def wilson(successes: np.ndarray | float, n: np.ndarray | int) -> tuple[np.ndarray, np.ndarray]:
    """Return the bounds of the Wilson 95% interval of the fraction ``successes / n``.

    Arguments and results have the same shape; the results are float64. The interval is (0, 1) where n is 0.
    """
    successes, n = np.asarray(successes, np.float64), np.asarray(n, np.float64)
    if np.any((successes < 0) | (successes > n)):
        raise ValueError("successes must be between 0 and n")
    failures = n - successes
    center = successes + Z**2 / 2
    spread = Z * np.sqrt(successes * failures / np.maximum(n, 1) + Z**2 / 4)
    # Exactly 0 or 1 at the ends, despite rounding.
    low = np.where(successes == 0, 0.0, (center - spread) / (n + Z**2))
    high = np.where(failures == 0, 1.0, (center + spread) / (n + Z**2))
    return low, high


def resampled(correct: np.ndarray, programs: np.ndarray) -> np.ndarray:
    """Return accuracies of bootstrap resamples of the clusters.

    The clusters drawn are the same for all measures, so that their differences are paired. Arguments are
    counts: of correct programs, shape (clusters, measures), and of all, shape (clusters,). Returns float64,
    shape (RESAMPLES, measures); NaN where a resample has no program.
    """
    counted = np.column_stack([correct, programs]).astype(np.float64)
    sums = np.concatenate([weights.astype(np.float64) @ counted for weights in _resamples(len(counted))])
    with np.errstate(invalid="ignore"):
        return sums[:, :-1] / sums[:, -1:]


# The policies that answer a question have the same clusters.
@lru_cache(maxsize=1)
def _resamples(clusters: int) -> list[np.ndarray]:
    """Return how often resamples have each cluster, in parts: uint16, shape (resamples, clusters) each."""
    rng = np.random.default_rng(0)  # fixed: the same results have the same intervals
    parts = []
    step = max(1, _WEIGHTS_AT_ONCE // clusters)
    for start in range(0, RESAMPLES, step):
        chosen = rng.integers(clusters, size=(min(step, RESAMPLES - start), clusters))
        # Numbers of its own for each resample, as bincount counts one axis only.
        chosen += clusters * np.arange(len(chosen))[:, None]
        weights = np.bincount(chosen.ravel(), minlength=chosen.size).reshape(chosen.shape)
        parts.append(weights.astype(np.uint16))  # enough: a cluster is chosen once on average
    return parts


def bootstrap(correct: np.ndarray, programs: np.ndarray) -> np.ndarray:
    """Return the bounds of the 95% bootstrap interval of each measure: float64, shape (2, measures).

    Where resamples do not differ, as when all programs are right, the interval is Wilson's over the clusters.
    Arguments are those of :func:`resampled`.
    """
    low, high = np.nanquantile(resampled(correct, programs), [0.025, 0.975], axis=0)
    # Over clusters, not programs: those of a cluster are right together and count as one.
    clusters = int((programs > 0).sum())
    fallback = wilson(clusters * correct.sum(0) / programs.sum(), clusters)
    return np.where(low == high, fallback, [low, high])


def gap_interval(correct: np.ndarray, programs: np.ndarray) -> tuple[float, float]:
    """Return the bounds of the 95% bootstrap interval of the first measure's accuracy minus the second's.

    Both have the same resamples. If neither accuracy differs among them, the interval is that of
    :func:`bootstrap` for the first, moved by the second. Arguments are those of :func:`resampled`.
    """
    accuracies = resampled(correct, programs)
    low, high = np.nanquantile(accuracies[:, 0] - accuracies[:, 1], [0.025, 0.975])
    if np.nanmax(np.ptp(accuracies, axis=0)) == 0:
        low, high = bootstrap(correct[:, :1], programs)[:, 0] - correct[:, 1].sum() / programs.sum()
    return float(low), float(high)


def programs_error(accuracy: float, n: int) -> float:
    """Return the half-width of the 95% interval of an accuracy on ``n`` sampled programs.

    It is the distance to the farther of Wilson's bounds, so it is not 0 at 0% or 100%.
    """
    low, high = wilson(accuracy * n, n)
    return float(max(accuracy - low, high - accuracy))


def mean_interval(values: np.ndarray, *errors: float) -> tuple[float, float, float]:
    """Return the mean of one value per seed, and its 95% interval over seeds and programs.

    All seeds share their test programs, so their spread does not show the sampling error of the programs. The
    squared half-width is that of Student's t over the seeds plus the squares of ``errors``, half-widths from
    :func:`programs_error`; for a difference, of both variants. This is conservative, as these share programs.
    Without errors, both bounds are NaN if there is one seed or all values are equal.
    """
    from scipy.stats import t

    mean, seeds = float(values.mean()), len(values)
    squared = sum(error**2 for error in errors)
    # Rounding is not spread.
    if not np.allclose(values, mean, rtol=1e-9, atol=1e-12):
        squared += float(t.ppf(0.975, seeds - 1)) ** 2 * float(values.var(ddof=1)) / seeds
    half = float(np.sqrt(squared)) if squared else np.nan
    return mean, mean - half, mean + half


def percent(fraction: float, sign: str = "%", signed: bool = False, rounding: str = ROUND_HALF_UP) -> str:
    """Format a fraction in percent with one digit, rounded from its shortest decimal form.

    >>> percent(0.9925), percent(0.0005, ""), percent(0.25, signed=True)
    ('99.3%', '0.1', '+25.0%')
    """
    # From the decimal form, because format() rounds the binary value, and ties to even digits.
    # Adding 0 makes -0.0 positive.
    number = (100 * Decimal(repr(float(fraction)))).quantize(Decimal("0.1"), rounding) + 0
    return f"{number:{'+' if signed and number else ''}}{sign}"


def as_text(accuracy: float | None, low: float, high: float) -> str:
    """Format an accuracy and its interval in percent.

    >>> as_text(0.987, 0.982, 0.991)
    '98.7% [98.2, 99.1]'
    """
    if accuracy is None:
        return "none tested"
    return f"{percent(accuracy)} {_bounds_as_text(low, high)}"


def loss_as_text(loss: float, low: float, high: float) -> str:
    """Format a loss and its interval in nats.

    >>> loss_as_text(0.59204, 0.5871, 0.597)
    '0.5920 [0.5871, 0.5970]'
    """
    return f"{loss:.4f} [{low:.4f}, {high:.4f}]"


def gap_as_text(gap: float, low: float, high: float) -> str:
    """Format a gap and its interval in percentage points.

    >>> gap_as_text(0.327, 0.308, 0.348)
    '+32.7 [+30.8, +34.8]'
    """
    return f"{percent(gap, '', signed=True)} {_bounds_as_text(low, high, signed=True)}"


def _bounds_as_text(low: float, high: float, signed: bool = False) -> str:
    """Format the bounds of an interval, which has a width as text, too."""
    below, above = (percent(bound, "", signed) for bound in (low, high))
    if below == above:  # outward, so that the text never claims more than the interval
        below, above = percent(low, "", signed, ROUND_FLOOR), percent(high, "", signed, ROUND_CEILING)
    return f"[{below}, {above}]"
