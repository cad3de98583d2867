"""Regions of the comparison grid, on grids with known counts."""

from collections.abc import Callable

import polars as pl
import pytest

from cadmus.errors import InputError
from cadmus.evaluate.statistics.regions import (
    PREDICTIONS,
    REGIONS,
    predicted,
    summary,
    training_range,
)
from cadmus.experiments import table


def true(x: int, y: int) -> str:
    return "<" if x < y else ">" if x > y else "="


def always_less(x: int, y: int) -> str:
    return "<"


def grid_of(
    grid: tuple[int, int],
    training: tuple[int, int],
    predict: Callable[[int, int], str] = true,
    programs: int = 2,
    linear: Callable[[int, int], str] = lambda x, y: "",
) -> pl.DataFrame:
    """Return the results of a model and a linear baseline that answer all programs of a pair alike."""
    values, inside = range(grid[0], grid[1] + 1), range(training[0], training[1] + 1)
    rows = [
        (
            *(x, y, programs, programs * (predict(x, y) == true(x, y))),
            *(programs * (predict(x, y) == symbol) for symbol in PREDICTIONS.values()),
            *(0, programs * (linear(x, y) == true(x, y)), 0),
            x in inside and y in inside,
            False,
        )
        for x in values
        for y in values
    ]
    return pl.DataFrame(rows, list(table("grid").columns), orient="row")


def test_a_constant_is_one_answer_for_the_whole_grid() -> None:
    rows = summary(grid_of((-3, 3), (-1, 1), always_less))
    assert rows["region"].to_list() == [
        region for region in REGIONS if region != "excluded" and not region.startswith("balanced")
    ]
    assert rows["pairs"].to_list() == [9, 24, 8, 4, 4]
    assert rows["programs"].to_list() == [18, 48, 16, 8, 8]
    assert rows["correct"].to_list() == [6, 24, 8, 4, 0]
    assert rows["accuracy"].to_list() == [1 / 3, 0.5, 0.5, 0.5, 0]
    assert set(rows["best_baseline"]) == {"constant"}
    assert rows["baseline"].to_list() == [1 / 3, 0.5, 0.5, 0.5, 0]
    assert rows["gap"].to_list() == [0] * 5
    assert rows["chance"].to_list() == [1 / 3] * 5


def test_the_best_baseline_of_each_region_is_named() -> None:
    def beyond(x: int, y: int) -> str:
        return "=" if abs(x) > 1 and abs(y) > 1 else "<" if x < 0 else ""

    grid = grid_of((-3, 3), (-1, 1), linear=beyond)
    rows = dict(summary(grid).select("region", pl.struct("best_baseline", "baseline")).iter_rows())
    assert rows["diagonal"] == {"best_baseline": "linear", "baseline": 1}
    assert rows["same_side"] == {"best_baseline": "constant", "baseline": 0.5}
    absent = grid.with_columns(linear=pl.lit(None, pl.Int64))
    assert set(summary(absent)["best_baseline"]) == {"constant"}
    # `<` solves as many programs of the grid as `>`; those with balanced operators have no say.
    balanced = absent.filter(pl.col("x") > pl.col("y"), "in_distribution").with_columns(balanced=True)
    (row,) = summary(pl.concat([absent, balanced])).filter(region="balanced").to_dicts()
    assert (row["best_baseline"], row["baseline"]) == ("constant", 0)


def test_sides_of_an_asymmetric_range() -> None:
    # One value is below the range, two are above.
    assert summary(grid_of((-1, 3), (0, 1)))["pairs"].to_list() == [4, 12, 4, 2, 3]
    assert summary(grid_of((0, 3), (-5, 1)))["pairs"].to_list() == [4, 8, 0, 2, 2]


def test_a_grid_inside_the_range_has_no_other_region() -> None:
    rows = summary(grid_of((0, 2), (-5, 5)))
    inside, *outside = rows.rows(named=True)
    assert (inside["pairs"], inside["accuracy"], inside["baseline"]) == (9, 1, 1 / 3)
    for row in outside:
        assert (row["pairs"], row["programs"], row["correct"]) == (0, 0, 0)
        assert row["accuracy"] is row["low"] is row["baseline"] is row["gap"] is row["gap_low"] is None


def test_a_grid_outside_the_range_is_on_one_side() -> None:
    grid = grid_of((4, 6), (-1, 1))
    assert summary(grid)["pairs"].to_list() == [0, 0, 0, 6, 3]
    with pytest.raises(InputError, match="within the training range"):
        training_range(grid)


def test_intervals_are_over_pairs_not_programs() -> None:
    few, many = (summary(grid_of((-3, 3), (-1, 1), always_less, programs)) for programs in (1, 50))
    bounds = ["low", "high", "gap_low", "gap_high"]
    assert few.select(bounds).equals(many.select(bounds))
    one_out = many.row(by_predicate=pl.col("region") == "one_out", named=True)
    # 12 of 24 pairs: the standard error is 0.102.
    assert one_out["low"] == pytest.approx(0.5 - 1.96 * 0.102, abs=0.03)
    assert one_out["high"] == pytest.approx(0.5 + 1.96 * 0.102, abs=0.03)
    # The answer of the model is the best constant or its mirror image.
    assert one_out["gap_low"] <= 0 <= one_out["gap_high"]


def test_the_most_frequent_prediction() -> None:
    counts = [(5, 3, 2), (2, 5, 3), (0, 0, 4), (0, 0, 5), (5, 5, 0), (0, 0, 0)]
    grid = pl.DataFrame(counts, list(PREDICTIONS), orient="row").with_columns(programs=10, balanced=False)
    assert predicted(grid)["predicted"].to_list() == ["<", "=", "other", ">", "<", "other"]
    untested = (
        grid[:1].with_columns(pl.lit(None).alias(name) for name in PREDICTIONS).with_columns(programs=0)
    )
    assert predicted(untested)["predicted"].to_list() == [None]
