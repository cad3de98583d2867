"""The interval that goes with every accuracy."""

import numpy as np

Z = 1.959963984540054
"""The 97.5 % quantile of the normal distribution, for 95 % intervals."""


def wilson(successes: np.ndarray | int, n: np.ndarray | int) -> tuple[np.ndarray, np.ndarray]:
    """The Wilson 95 % interval of a share, ``successes`` of ``n``.

    Numbers or arrays of one shape; float64 arrays of that shape come back.  No trial at all (n = 0) says
    nothing about the share: (0, 1).

    Raises:
        ValueError: ``successes`` is not within 0 and ``n``.
    """
    successes, n = np.asarray(successes, np.float64), np.asarray(n, np.float64)
    if np.any((successes < 0) | (successes > n)):
        raise ValueError("successes must lie within 0 and n")
    failures = n - successes
    centre = successes + Z**2 / 2
    spread = Z * np.sqrt(successes * failures / np.maximum(n, 1) + Z**2 / 4)
    # At the ends the bound is 0 or 1 exactly, which rounding would miss by a hair.
    low = np.where(successes == 0, 0.0, (centre - spread) / (n + Z**2))
    high = np.where(failures == 0, 1.0, (centre + spread) / (n + Z**2))
    return low, high


def as_text(accuracy: float | None, low: float, high: float) -> str:
    """An accuracy with its interval, in percent.

    >>> as_text(0.987, 0.982, 0.991)
    '98.7 % [98.2, 99.1]'
    """
    if accuracy is None:
        return "none tested"
    return f"{100 * accuracy:.1f} % [{100 * low:.1f}, {100 * high:.1f}]"
