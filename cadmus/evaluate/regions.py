"""Accuracy on the comparison grid in and out of distribution, and by distance from the training range."""

import polars as pl

from cadmus.errors import InputError
from cadmus.evaluate.results import with_accuracy

COLUMNS = ("x", "y", "programs", "correct", "in_distribution")
"""Columns of the results of :func:`cadmus.experiments.grid.comparison_grid`."""


def summary(grid: pl.DataFrame) -> pl.DataFrame:
    """Compute the accuracy in distribution, out of distribution, and out of distribution where x = y.

    Returns:
        region (``in_distribution``, ``out_of_distribution``, ``out_of_distribution_diagonal``), pairs
        (those with a program), programs, correct, accuracy, low, high.
    """
    inside = pl.col("in_distribution")
    regions = {
        "in_distribution": inside,
        "out_of_distribution": ~inside,
        "out_of_distribution_diagonal": ~inside & (pl.col("x") == pl.col("y")),
    }
    return with_accuracy(
        pl.concat(
            grid.filter(region).select(
                pl.lit(name).alias("region"),
                (pl.col("programs") > 0).sum().cast(pl.Int64).alias("pairs"),
                pl.col("programs").sum(),
                pl.col("correct").sum(),
            )
            for name, region in regions.items()
        )
    )


def training_range(grid: pl.DataFrame) -> tuple[int, int]:
    """Return the smallest and largest value on the grid that are in the training range.

    Raises:
        InputError: the grid is entirely outside the training range.
    """
    inside = grid.filter("in_distribution")["x"].to_numpy()
    if not len(inside):
        raise InputError("the grid has no pair within the training range; widen evaluate.grid")
    return int(inside.min()), int(inside.max())


def by_distance(grid: pl.DataFrame) -> pl.DataFrame:
    """Compute the accuracy by true comparator and by Chebyshev distance from the training range.

    The distance is 0 in distribution, else that of x or y, whichever is farther out. Pairs without a program
    are ignored.

    Returns:
        comparator, distance, programs, correct, accuracy, low, high.
    """
    low, high = training_range(grid)
    beyond = [pl.max_horizontal(low - pl.col(axis), pl.col(axis) - high, pl.lit(0)) for axis in ("x", "y")]
    x, y = pl.col("x"), pl.col("y")
    comparator = pl.when(x < y).then(pl.lit("<")).when(x > y).then(pl.lit(">")).otherwise(pl.lit("="))
    return with_accuracy(
        grid.with_columns(comparator.alias("comparator"), pl.max_horizontal(*beyond).alias("distance"))
        .filter(pl.col("programs") > 0)
        .group_by("comparator", "distance")
        .agg(pl.col("programs").sum(), pl.col("correct").sum())
        .sort("comparator", "distance")
    )
