"""The comparison grid (the paper's heat map of accuracy over X and Y).

For every pair of values the model reads two held-out expressions and its most probable next token, of all
65, has to be the comparator that makes the program true.
"""

from typing import Any

import numpy as np
import polars as pl
from tqdm import tqdm

from cadmus.config import Grid, Values
from cadmus.errors import InputError
from cadmus.evaluate.comparisons import HALF, held_out_comparisons, true_comparator
from cadmus.evaluate.numbers import with_accuracy
from cadmus.model.tokens import TOKEN_OF_BYTE

COLUMNS = ("x", "y", "programs", "correct", "in_distribution")
_PROGRAMS_AT_ONCE = 8_192


def comparison_grid(
    model: Any, settings: Grid, values: Values, held_out_share: float, seed: int
) -> pl.DataFrame:
    """Accuracy of the next token at the comparator, for every pair of values.

    Args:
        model: has ``next_logits(prompts)`` as :class:`cadmus.model.Cadmus` does.
        settings: the range of the grid and the programs of each pair.
        values: the range of the training set, which is the grid's in-distribution square.
        held_out_share: as the training set was split.

    Returns:
        One row a pair: x, y, programs, correct (null where no held-out program exists) and
        in_distribution.
    """
    axis = np.arange(settings.low, settings.high + 1)
    x, y = (side.ravel() for side in np.meshgrid(axis, axis, indexing="ij"))
    rng = np.random.default_rng([seed, *b"grid"])
    programs, pair = held_out_comparisons(rng, x, y, settings.programs_per_pixel, held_out_share)
    prompts = programs.prefixes(np.full(len(programs), 2 * HALF))
    expected = TOKEN_OF_BYTE[true_comparator(x, y)][pair]
    predicted = np.empty(len(programs), np.int64)
    for first in tqdm(range(0, len(programs), _PROGRAMS_AT_ONCE), desc="grid", delay=2, disable=None):
        rows = np.arange(first, min(first + _PROGRAMS_AT_ONCE, len(programs)))
        predicted[rows] = model.next_logits(prompts.take(rows)).argmax(axis=1)
    tested = np.bincount(pair, minlength=len(x))
    correct = np.bincount(pair[predicted == expected], minlength=len(x))
    low, high = values.low, values.high
    return pl.DataFrame(
        {
            "x": x,
            "y": y,
            "programs": tested,
            "correct": correct,
            "in_distribution": (low <= x) & (x <= high) & (low <= y) & (y <= high),
        }
    ).with_columns(pl.when(pl.col("programs") > 0).then("correct"))


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
    inside = grid.filter("in_distribution")["x"]
    if not len(inside):
        raise InputError("the grid holds no pair within the training range; widen evaluate.grid")
    return inside.min(), inside.max()


def by_distance(grid: pl.DataFrame) -> pl.DataFrame:
    """Accuracy by true comparator and by distance from the in-distribution square.

    The distance is how far the farther of x and y lies outside of the training range (Chebyshev); 0 is in
    distribution.  Pairs without a program do not count.

    Returns:
        comparator, distance, programs, correct, accuracy, low, high.
    """
    low, high = training_range(grid)
    beyond = [pl.max_horizontal(low - pl.col(axis), pl.col(axis) - high, pl.lit(0)) for axis in ("x", "y")]
    comparator = true_comparator(grid["x"].to_numpy(), grid["y"].to_numpy()).tobytes().decode("ascii")
    return with_accuracy(
        grid.with_columns(
            pl.Series("comparator", list(comparator)), pl.max_horizontal(*beyond).alias("distance")
        )
        .filter(pl.col("programs") > 0)
        .group_by("comparator", "distance")
        .agg(pl.col("programs").sum(), pl.col("correct").sum())
        .sort("comparator", "distance")
    )
