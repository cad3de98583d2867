"""Summaries of a comparison grid: inside and outside of the training range, and how far outside."""

import polars as pl

from cadmus.errors import InputError
from cadmus.evaluate.results import with_accuracy

COLUMNS = ("x", "y", "programs", "correct", "in_distribution")
"""The columns of a grid, as :func:`cadmus.experiments.grid.comparison_grid` makes it."""


def summary(grid: pl.DataFrame) -> pl.DataFrame:
    """Accuracy inside the in-distribution square, outside of it, and outside of it where x = y.

    Returns:
        region (``in_distribution``, ``out_of_distribution``, ``out_of_distribution_diagonal``), pairs
        (with a program), programs, correct, accuracy, low, high.
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
    """Smallest and largest value of the grid that the training set holds.

    Raises:
        InputError: the grid lies wholly outside of the training range.
    """
    inside = grid.filter("in_distribution")["x"].to_numpy()
    if not len(inside):
        raise InputError("the grid holds no pair within the training range; widen evaluate.grid")
    return int(inside.min()), int(inside.max())


def by_distance(grid: pl.DataFrame) -> pl.DataFrame:
    """Accuracy by true comparator and by distance from the in-distribution square.

    The distance is how far the farther of x and y lies outside of the training range (Chebyshev); 0 is in
    distribution.  Pairs without a program do not count.

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
