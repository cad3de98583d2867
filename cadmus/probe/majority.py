"""The baseline of the probes: the best guess from the instructions seen so far."""

import numpy as np
import polars as pl

from cadmus.programs import Programs


def majority(halves: Programs, values: np.ndarray) -> dict[str, np.ndarray]:
    """Accuracy of guessing the most frequent value given all instructions seen so far.

    The programs are all pairs of two of the expressions, each pair as frequent as any other, followed by
    the comparator.  A value is thus independent of the other expression, and known for certain once its
    own is complete.

    Args:
        halves: every expression, n of one length.
        values: their values, int64, shape (n,).

    Returns:
        For ``x`` and ``y`` the accuracy after each token: float64, shape (2 · length + 1,).
    """
    length = int(halves.lengths[0])
    table = pl.DataFrame({"half": pl.from_arrow(halves.to_arrow()), "value": values})
    prior, *own = (_best_guess(table, seen) for seen in range(length + 1))
    complete = own[-1]
    return {
        "x": np.array([*own, *[complete] * (length + 1)]),
        "y": np.array([*[prior] * length, *own, complete]),
    }


def _best_guess(table: pl.DataFrame, seen: int) -> float:
    counts = table.group_by(pl.col("half").str.head(seen), "value").len()
    right = counts.group_by("half").agg(pl.col("len").max())["len"].sum()
    return float(right / len(table))
