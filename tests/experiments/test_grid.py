"""Comparison grid and its regions, on models with known predictions."""

import numpy as np
import polars as pl
import pytest

from cadmus import isa
from cadmus.config import Values
from cadmus.errors import InputError
from cadmus.evaluate import regions
from cadmus.experiments.grid import Settings, comparison_grid
from cadmus.programs import Programs
from cadmus.vm.reference import run

SHARE = 0.05


class Comparator:
    """Model that predicts the true comparator, or always the same one."""

    def __init__(self, always: str | None = None) -> None:
        self.always = always

    def next_logits(self, prompts: Programs) -> np.ndarray:
        names = [self.always or self._true(prompt) for prompt in prompts.to_strings()]
        return np.eye(isa.VOCABULARY_SIZE, dtype=np.float32)[[isa.TOKEN_ID[name] for name in names]]

    @staticmethod
    def _true(prompt: str) -> str:
        return next(name for name in "<>=" if run(prompt + name).true)


def grid_of(model: object, low: int = -3, high: int = 3, programs: int = 2) -> pl.DataFrame:
    settings = Settings(low=low, high=high, programs_per_pixel=programs)
    return comparison_grid(model, settings, Values(low=-1, high=1), SHARE, seed=1)


def test_a_perfect_model_fills_the_grid() -> None:
    grid = grid_of(Comparator())
    assert (grid["programs"] == 2).all()
    assert (grid["correct"] == 2).all()
    assert grid.filter("in_distribution").select("x", "y").unique().height == 9
    rows = {row["region"]: row for row in regions.summary(grid).iter_rows(named=True)}
    assert {name: row["programs"] for name, row in rows.items()} == {
        "in_distribution": 18,
        "out_of_distribution": 80,
        "out_of_distribution_diagonal": 8,
    }
    assert all(row["accuracy"] == 1 and row["low"] < 1 for row in rows.values())


def test_a_constant_model_is_correct_on_one_side_of_the_diagonal() -> None:
    grid = grid_of(Comparator(always="<"))
    assert grid.filter((pl.col("correct") == 2) != (pl.col("x") < pl.col("y"))).is_empty()
    distances = regions.by_distance(grid)
    assert distances.filter(pl.col("comparator") == "<")["accuracy"].to_list() == [1, 1, 1]
    assert distances.filter(pl.col("comparator") == "=")["accuracy"].to_list() == [0, 0, 0]
    programs = distances.group_by("distance").agg(pl.col("programs").sum()).sort("distance")
    assert programs.rows() == [(0, 18), (1, 32), (2, 48)]


def test_a_prediction_other_than_a_comparator_is_wrong() -> None:
    assert grid_of(Comparator(always="."))["correct"].sum() == 0


def test_pixels_without_a_program_are_null() -> None:
    # No five-instruction expression gives 730 or more.
    grid = grid_of(Comparator(), low=728, high=731)
    missing = grid.filter((pl.col("x") > 729) | (pl.col("y") > 729))
    assert missing["programs"].to_list() == [0] * 12
    assert missing["correct"].null_count() == 12
    with pytest.raises(InputError, match="within the training range"):
        regions.by_distance(grid)
