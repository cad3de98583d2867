"""Activation patching, on a model with a known mechanism."""

from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from cadmus import isa
from cadmus.errors import InputError
from cadmus.experiments.patch import measure
from cadmus.programs import TOKEN_OF_BYTE, Programs
from cadmus.templates.draw import comparator
from cadmus.vm.reference import run
from tests.experiments.subjects import subject_of

LAYERS = 4


class Two:
    """Holds x at token 5 up to block 2, y at token 10 after block 1, and there the comparator at the end."""

    sizes = SimpleNamespace(layers=LAYERS)

    def next_logits(self, prompts: Programs) -> np.ndarray:
        return self._logits(*self._values(prompts))

    def patched_logits(self, prompts: Programs, donors: Programs, layer: int, token: int) -> np.ndarray:
        (x, y), (other_x, other_y) = self._values(prompts), self._values(donors)
        if token == 4 and layer <= 2:
            x = other_x
        if token == 9 and layer >= 1:
            y = other_y
        if token == 9 and layer == LAYERS:
            x = other_x
        return self._logits(x, y)

    @staticmethod
    def _values(programs: Programs) -> tuple[np.ndarray, np.ndarray]:
        texts = programs.to_strings()
        return tuple(
            np.array([run(text[part]).outputs[0].value for text in texts])
            for part in (slice(5), slice(5, 10))
        )

    @staticmethod
    def _logits(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.eye(isa.VOCABULARY_SIZE, dtype=np.float32)[TOKEN_OF_BYTE[comparator(x, y)]]


def test_the_comparator_follows_the_patched_value():
    results = measure(subject_of(Two(), -3, 3, {"patch": {"programs": 40}}))
    assert results.height == 2 * (LAYERS + 1) * 4
    assert (results["programs"] == 40).all()
    told = results.filter(pl.col("share") == 1).sort("token", "layer")
    assert (results["share"].is_in([0.0, 1.0])).all()
    assert told.select("token", "layer", "outcome").rows() == [
        *((5, layer, "hybrid" if layer <= 2 else "own") for layer in range(LAYERS + 1)),
        (10, 0, "own"),
        *((10, layer, "hybrid") for layer in range(1, LAYERS)),
        (10, LAYERS, "donor"),
    ]


class Wrong(Two):
    """Always predicts ``;``."""

    @staticmethod
    def _logits(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.tile(np.eye(isa.VOCABULARY_SIZE, dtype=np.float32)[isa.TOKEN_ID[";"]], (len(x), 1))


def test_pairs_with_a_wrong_unpatched_prediction_do_not_count():
    results = measure(subject_of(Wrong(), -3, 3, {"patch": {"programs": 40}}))
    assert (results["programs"] == 0).all()
    assert results["share"].null_count() == len(results)


def test_too_few_pairs_are_an_error():
    with pytest.raises(
        InputError, match=r"evaluate\.patch\.programs: 10 pairs with three different comparators"
    ):
        measure(subject_of(Two(), 2, 2, {"patch": {"programs": 10}}))
