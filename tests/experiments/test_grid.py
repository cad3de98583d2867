"""Comparison grid and its regions, on models with known predictions."""

from typing import Any

import numpy as np
import polars as pl
import pytest

from cadmus import isa
from cadmus.evaluate.statistics import regions
from cadmus.experiments.grid import measure
from cadmus.programs import Programs
from cadmus.vm.reference import run
from tests.experiments.subjects import subject_of


class Comparator:
    """Model that predicts the true comparator, or always the same one."""

    def __init__(self, always: str | None = None) -> None:
        self.always = always

    def next_tokens(self, prompts: Programs) -> np.ndarray:
        names = [self.always or self._true(prompt) for prompt in prompts.to_strings()]
        return np.array([isa.TOKEN_ID[name] for name in names])

    @staticmethod
    def _true(prompt: str) -> str:
        return next(name for name in "<>=" if run(prompt + name).true)


def grid_of(
    model: object, low: int = -3, high: int = 3, programs: int = 2, balanced: bool = False, **fields: Any
) -> pl.DataFrame:
    settings = {"low": low, "high": high, "programs_per_pixel": programs, "balanced": 90}
    results = measure(subject_of(model, -1, 1, {"grid": settings}, **fields))
    return results if balanced else results.remove("balanced")


@pytest.fixture(scope="module")
def perfect() -> pl.DataFrame:
    """The grid of a perfect model, with balanced programs."""
    return grid_of(Comparator(), balanced=True)


def test_the_operators_of_balanced_programs_tell_nothing(perfect) -> None:
    row = regions.summary(perfect).row(by_predicate=pl.col("region") == "balanced", named=True)
    assert (row["programs"], row["correct"]) == (90, 90)
    assert row["baseline"] < 0.6
    balanced = perfect.filter("balanced")
    inside = balanced.filter(pl.max_horizontal(pl.col("x", "y").abs()) == 1)
    # As always, one comparator is the constant.
    constant = inside.filter(pl.col("x") < pl.col("y"))["programs"].sum()
    assert constant == 30
    assert regions.predicted(perfect)["balanced"].any() is False


@pytest.mark.parametrize("region", ["one_out", "opposite", "same_side"])
def test_outside_of_the_range_operators_of_balanced_programs_tell_nothing_either(perfect, region) -> None:
    row = regions.summary(perfect).row(by_predicate=pl.col("region") == f"balanced_{region}", named=True)
    assert (row["programs"], row["correct"]) == (90, 90)
    below, above = (pl.col(axis).clip(-1, 1) != pl.col(axis) for axis in "xy")
    where = {"one_out": below ^ above, "opposite": (pl.col("x") * pl.col("y") < 0) & below & above}
    where["same_side"] = (pl.col("x") * pl.col("y") > 0) & below & above
    programs = perfect.filter("balanced", where[region])
    assert programs["programs"].sum() == 90
    assert programs.filter(pl.col("x") < pl.col("y"))["programs"].sum() == 45
    assert programs.filter(pl.col("x") == pl.col("y")).is_empty()


def test_excluded_pairs_are_a_region_of_their_own() -> None:
    values = {"low": -2, "high": 2}
    corner = {"corner": {"values": [[1, 2]], "compared": "both"}}
    grid = grid_of(Comparator(), values=values, ood=corner)
    excluded = dict(regions.summary(grid).select("region", "pairs").iter_rows())
    assert excluded["excluded"] == 4
    assert excluded["inside"] == 25 - 4
    assert sum(excluded.values()) == 49


def test_the_range_is_that_of_values_compared_with_others() -> None:
    values = {"low": -2, "high": 2}
    equal_only = {"order": {"values": [-2, 2], "templates": ["less_greater"]}}
    grid = grid_of(Comparator(), values=values, ood=equal_only)
    assert regions.training_range(grid) == (-1, 1)
    pairs = dict(regions.summary(grid).select("region", "pairs").iter_rows())
    assert pairs == {"inside": 9, "one_out": 24, "opposite": 8, "same_side": 4, "diagonal": 4}


def test_predicted_comparators_are_counted(perfect) -> None:
    grid = perfect.remove("balanced")
    x, y = pl.col("x"), pl.col("y")
    for name, holds in {"less": x < y, "equal": x == y, "greater": x > y}.items():
        assert grid.filter((pl.col(name) == 2) != holds).is_empty()
        assert grid.filter((pl.col(name) == 0) == holds).is_empty()
    constant = grid_of(Comparator(always="<"))
    assert constant.select("less", "equal", "greater").unique().rows() == [(2, 0, 0)]
    assert constant.filter((pl.col("correct") == 2) != (x < y)).is_empty()


def test_pixels_without_a_program_are_null() -> None:
    # No five-instruction expression gives 730 or more.
    grid = grid_of(Comparator(), low=728, high=731, eval_fraction=0.49)
    missing = grid.filter((pl.col("x") > 729) | (pl.col("y") > 729))
    assert missing["programs"].to_list() == [0] * 12
    for name in ("correct", "less", "equal", "greater", *regions.LEARNED):
        assert missing[name].null_count() == 12


def test_baselines_are_fitted_to_training_comparisons_of_the_form_of_the_grid() -> None:
    values = {"low": -20, "high": 20}
    rows = regions.summary(grid_of(Comparator(), low=-22, high=22, programs=1, values=values))
    (inside,) = rows.filter(region="inside").to_dicts()
    assert inside["best_baseline"] in regions.LEARNED
    assert 0.75 < inside["baseline"] < 0.9
    # No expression has such a value, so nothing is learned.
    beyond = grid_of(Comparator(), values={"low": 730, "high": 740})
    assert beyond["linear"].null_count() == beyond["operators"].null_count() == len(beyond)
