"""Sampling of comparisons from the test split."""

import itertools

import numpy as np
import pytest

from cadmus.config import Dataset
from cadmus.dataset.splits import TEST, TRAIN, split_of
from cadmus.errors import InputError
from cadmus.evaluate.prompts.comparisons import (
    grid_programs,
    sample_comparisons,
    training_comparisons,
)
from cadmus.programs import Programs
from cadmus.templates.expressions import expressions
from cadmus.vm.compiled import are_true, execute
from cadmus.vm.reference import run
from tests.config.tiny import tiny

SHARE = 0.05


def grid(
    low: int, high: int, programs: int, share: float
) -> tuple[np.ndarray, np.ndarray, Programs, np.ndarray]:
    settings = {"grid": {"low": low, "high": high, "programs_per_pixel": programs}}
    return grid_programs(tiny(evaluate=settings, dataset={"eval_fraction": share}))


def check(programs: Programs, x: np.ndarray, y: np.ndarray) -> None:
    """Check that programs are distinct true test programs that compare x and y."""
    texts = programs.to_strings()
    assert len(set(texts)) == len(texts)
    assert are_true(programs).all()
    assert (split_of(programs, SHARE) == TEST).all()
    for text, *values in zip(texts, x, y, strict=True):
        assert [run(text[:5]).outputs[0].value, run(text[5:10]).outputs[0].value] == values


def test_comparisons_per_pair_are_true_distinct_test_programs() -> None:
    x, y, programs, pair = grid(-3, 3, 10, SHARE)
    check(programs, x[pair], y[pair])
    assert (np.bincount(pair) == 10).all()


def test_a_small_space_is_exhausted() -> None:
    table = expressions(5)
    halves = table.programs.take(table.values == -38).to_strings()
    space = Programs.from_strings(a + b + "=" for a, b in itertools.product(halves, halves))
    expected = set(space.take(split_of(space, 0.2) == TEST).to_strings())
    _, _, programs, _ = grid(-38, -38, 100, 0.2)
    assert set(programs.to_strings()) == expected
    assert expected


def test_comparisons_of_a_range_are_true_distinct_test_programs() -> None:
    dataset = Dataset.model_validate({"values": {"low": -4, "high": 4}, "eval_fraction": SHARE})
    programs, targets = sample_comparisons(np.random.default_rng(0), 2_000, dataset, "evaluate.probe")
    assert len(programs) == 2_000
    check(programs, targets["x"], targets["y"])
    for side in targets.values():
        assert set(side.tolist()) == set(range(-4, 5))


def test_a_range_with_too_few_comparisons_is_an_error() -> None:
    for low, high, n, found in ((-38, -38, 500, r"\d+"), (900, 950, 5, "0")):
        dataset = Dataset.model_validate({"values": {"low": low, "high": high}})
        with pytest.raises(InputError, match=rf"evaluate\.probe: needs {n} test .* only {found} were found"):
            sample_comparisons(np.random.default_rng(0), n, dataset, "evaluate.probe")


def test_training_comparisons_are_of_the_training_split_and_allowed() -> None:
    fields = {"values": {"low": -5, "high": 5}, "eval_fraction": 0.2, "ood": {"five": {"values": [5]}}}
    dataset = Dataset.model_validate(fields)
    programs = training_comparisons(np.random.default_rng(0), 2_000, dataset)
    assert 500 < len(programs) < 1_600
    assert (split_of(programs, 0.2) == TRAIN).all()
    assert are_true(programs).all()
    for half in (
        programs.prefixes(np.full(len(programs), 5)),
        programs.prefixes(np.full(len(programs), 10)).suffixes(np.full(len(programs), 5)),
    ):
        assert set(execute(half).values[:, 0]) == set(range(-5, 5))
