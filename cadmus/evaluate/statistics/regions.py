"""Accuracy on the comparison grid by region."""

from typing import Any

import numpy as np
import polars as pl

from cadmus.errors import InputError
from cadmus.evaluate.statistics.intervals import bootstrap, gap_interval

PREDICTIONS = {"less": "<", "equal": "=", "greater": ">"}
"""Columns that count the predicted comparators."""
LEARNED = ("operators", "linear", "pairs")
"""Columns that count the programs that baselines solve: fitted to training comparisons of the grid's form."""
REGIONS = {
    "inside": "both inside",
    "one_out": "one outside",
    "opposite": "both outside, opposite sides",
    "same_side": "both outside, same side, X ≠ Y",
    "diagonal": "both outside, X = Y",
    "excluded": "both inside, excluded by a rule",
    "balanced": "both inside, operators balanced",
    "balanced_one_out": "one outside, operators balanced",
    "balanced_opposite": "opposite sides, operators balanced",
    "balanced_same_side": "same side, X ≠ Y, operators balanced",
}
"""Regions of the grid and their titles: the positions of X and Y relative to the training range. Those with
balanced operators have programs of their own."""
_OPTIONAL = [region for region in REGIONS if region == "excluded" or region.startswith("balanced")]

_COUNTS = {
    "pairs": pl.Int64,
    "programs": pl.Int64,
    "correct": pl.Int64,
    "accuracy": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "best_baseline": pl.String,
    "baseline": pl.Float64,
    "gap": pl.Float64,
    "gap_low": pl.Float64,
    "gap_high": pl.Float64,
}


def summary(grid: pl.DataFrame) -> pl.DataFrame:
    """Compute the accuracy in each region.

    Intervals are 95% bootstrap intervals over pairs (X, Y): programs of a pair ask the same question. The
    best baseline of a region is one of :data:`LEARNED` or ``constant``, one comparator for the whole grid,
    the best in hindsight: no baseline sees the region. ``chance`` is that of a random comparator. The last
    five of :data:`REGIONS` have a row only if they have programs; others without a program have nulls.
    """
    tested = _tested(grid)
    present = set(tested["region"])
    regions = [region for region in REGIONS if region not in _OPTIONAL or region in present]
    rows = [(region, *_measured(tested.filter(region=region))) for region in regions]
    table = pl.DataFrame(rows, {"region": pl.String, **_COUNTS}, orient="row")
    columns = table.columns
    return table.with_columns(chance=1 / len(PREDICTIONS)).select(*columns[:7], "chance", *columns[7:])


def training_range(grid: pl.DataFrame) -> tuple[int, int]:
    """Return the smallest and largest value on the grid that were compared with others in training."""
    allowed = grid.filter("in_distribution")
    # A rule may leave equalities of numbers that training never compares with others.
    inside = allowed.filter(pl.col("x") != pl.col("y")) if (allowed["x"] != allowed["y"]).any() else allowed
    if inside.is_empty():
        raise InputError("the grid has no pair within the training range; widen evaluate.grid")
    return int(inside["x"].to_numpy().min()), int(inside["x"].to_numpy().max())


def predicted(grid: pl.DataFrame) -> pl.DataFrame:
    """Add ``predicted``, the comparator that was predicted for most programs of each pair of the grid.

    It is the first of ``<``, ``=`` and ``>`` among equals, ``other`` if most predictions are other tokens,
    and null without a program.
    """
    most = pl.max_horizontal(*PREDICTIONS)
    other = pl.col("programs") - pl.sum_horizontal(*PREDICTIONS)
    # In the order of PREDICTIONS, so that the first of equals wins.
    names = [pl.when(pl.col(column) == most).then(pl.lit(symbol)) for column, symbol in PREDICTIONS.items()]
    name = pl.when(other > most).then(pl.lit("other")).otherwise(pl.coalesce(names))
    return grid.filter(~pl.col("balanced")).with_columns(predicted=pl.when(pl.col("programs") > 0).then(name))


def _tested(grid: pl.DataFrame) -> pl.DataFrame:
    """Return the pairs with a program, and their region."""
    if grid["in_distribution"].any():
        low, high = training_range(grid)
    else:
        # The values of a grid follow each other, so all of them are on one side.
        low = high = int(grid["x"].to_numpy().min()) - 1
    x, y = ((pl.col(axis) > high).cast(pl.Int8) - (pl.col(axis) < low).cast(pl.Int8) for axis in "xy")
    # The order matters: a pair is in the region of the first that holds.
    conditions = {
        "inside": (x == 0) & (y == 0) & pl.col("in_distribution"),
        "excluded": (x == 0) & (y == 0),
        "one_out": (x == 0) | (y == 0),
        "opposite": x != y,
        "diagonal": pl.col("x") == pl.col("y"),
        "same_side": pl.lit(True),
    }
    position = pl.coalesce(pl.when(condition).then(pl.lit(name)) for name, condition in conditions.items())
    balanced = pl.when("in_distribution").then(pl.lit("balanced")).otherwise("balanced_" + position)
    region = pl.when("balanced").then(balanced).otherwise(position)
    tested = grid.filter(pl.col("programs") > 0)
    order = (pl.col("x") - pl.col("y")).sign()
    solved = [tested.select(pl.col("programs") * (order == sign)).to_series() for sign in (-1, 0, 1)]
    # Chosen on the grid alone: where operators are balanced, comparators are too.
    constant = max(solved, key=lambda counts: int(counts.filter(~tested["balanced"]).sum()))
    return tested.with_columns(region.alias("region"), constant.alias("constant"))


def _measured(pairs: pl.DataFrame) -> tuple[Any, ...]:
    """Return the values of :data:`_COUNTS` for pairs with programs."""
    if pairs.is_empty():
        return 0, 0, 0, *[None] * 8
    present = [name for name in ("constant", *LEARNED) if not pairs[name].has_nulls()]
    name = max(present, key=lambda policy: int(pairs[policy].sum()))
    both = pairs.select("correct", name).to_numpy().astype(np.float64)
    programs = pairs["programs"].to_numpy()
    low, high = bootstrap(both[:, :1], programs)[:, 0].tolist()
    n = int(programs.sum())  # of programs, not pairs: pixels may have fewer programs than others
    accuracy, best = (both.sum(0) / n).tolist()
    counts = len(pairs), n, int(both[:, 0].sum())
    return *counts, accuracy, low, high, name, best, accuracy - best, *gap_interval(both, programs)
