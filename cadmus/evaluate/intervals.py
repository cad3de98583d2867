"""Confidence intervals of accuracies."""

import numpy as np

Z = 1.959963984540054
"""The 97.5% quantile of the normal distribution, for 95% intervals."""


def wilson(successes: np.ndarray | int, n: np.ndarray | int) -> tuple[np.ndarray, np.ndarray]:
    """Return the bounds of the Wilson 95% interval of the fraction ``successes / n``.

    Arguments and results have the same shape; the results are float64. The interval is (0, 1) where ``n`` is
    0.

    Raises:
        ValueError: ``successes`` is negative or greater than ``n``.
    """
    successes, n = np.asarray(successes, np.float64), np.asarray(n, np.float64)
    if np.any((successes < 0) | (successes > n)):
        raise ValueError("successes must be between 0 and n")
    failures = n - successes
    centre = successes + Z**2 / 2
    spread = Z * np.sqrt(successes * failures / np.maximum(n, 1) + Z**2 / 4)
    # Exactly 0 or 1 at the ends, despite rounding.
    low = np.where(successes == 0, 0.0, (centre - spread) / (n + Z**2))
    high = np.where(failures == 0, 1.0, (centre + spread) / (n + Z**2))
    return low, high


def as_text(accuracy: float | None, low: float, high: float) -> str:
    """Format an accuracy and its interval in percent.

    >>> as_text(0.987, 0.982, 0.991)
    '98.7 % [98.2, 99.1]'
    """
    if accuracy is None:
        return "none tested"
    return f"{100 * accuracy:.1f} % [{100 * low:.1f}, {100 * high:.1f}]"
