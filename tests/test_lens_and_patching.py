"""What layers would say next, and whose comparator follows an exchanged state, on models that are known."""

import numpy as np
import polars as pl
import pytest

from cadmus import isa
from cadmus.config import Values
from cadmus.errors import InputError
from cadmus.model.tokens import TOKEN_OF_BYTE
from cadmus.probe.lens import logit_lens
from cadmus.probe.patching import patching
from cadmus.programs import Programs
from cadmus.templates.draw import comparator
from cadmus.vm.reference import run

VALUES = Values(low=-3, high=3)
LAYERS = 4


class KnowsItself:
    """Logits of three layers: nothing, each program's own next instruction with 3 nats, and always ``<``."""

    def layer_logits(self, programs: Programs):
        texts = programs.to_strings()
        for start in range(0, len(texts), 64):
            part = slice(start, min(start + 64, len(texts)))
            logits = np.zeros((3, part.stop - start, 11, isa.VOCABULARY_SIZE), np.float32)
            for row, text in enumerate(texts[part]):
                for token, following in enumerate(text[1:] + isa.END):
                    logits[1, row, token, isa.TOKEN_ID[following]] = 3
            logits[2, ..., isa.TOKEN_ID["<"]] = 30
            yield part, logits


def test_the_lens_tells_loss_and_agreement():
    numbers = logit_lens(KnowsItself(), 150, VALUES, 0.05, seed=1)
    assert numbers.height == 3 * 11
    nothing, own, last = (numbers.filter(layer=layer) for layer in range(3))
    vocabulary = isa.VOCABULARY_SIZE
    assert nothing["loss"].to_list() == pytest.approx([np.log(vocabulary)] * 11)
    assert own["loss"].to_list() == pytest.approx([np.log(np.exp(3) + vocabulary - 1) - 3] * 11, rel=1e-5)
    assert own["accuracy"].to_list() == [1] * 11
    assert last["agreeing"].to_list() == [150] * 11
    # At the comparator the last layer is right where it is <.
    at_comparator = last.filter(token=10)
    assert 0 < at_comparator["accuracy"][0] < 1
    assert at_comparator["correct"][0] == own.filter(token=10)["agreeing"][0]


class Two:
    """A model that holds x at token 5 up to its second block and y at token 10 behind the first.

    Behind its last block token 10 holds the comparator.
    """

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


def test_the_comparator_follows_the_number_that_was_exchanged():
    numbers = patching(Two(), 40, LAYERS, VALUES, 0.05, seed=1)
    assert numbers.height == 2 * (LAYERS + 1) * 4
    assert (numbers["programs"] == 40).all()
    told = numbers.filter(pl.col("share") == 1).sort("token", "layer")
    assert (numbers["share"].is_in([0.0, 1.0])).all()
    assert told.select("token", "layer", "outcome").rows() == [
        *((5, layer, "hybrid" if layer <= 2 else "own") for layer in range(LAYERS + 1)),
        (10, 0, "own"),
        *((10, layer, "hybrid") for layer in range(1, LAYERS)),
        (10, LAYERS, "donor"),
    ]


class Wrong(Two):
    """Says ``;`` whatever it is asked."""

    @staticmethod
    def _logits(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.tile(np.eye(isa.VOCABULARY_SIZE, dtype=np.float32)[isa.TOKEN_ID[";"]], (len(x), 1))


def test_what_the_model_gets_wrong_anyway_does_not_count():
    numbers = patching(Wrong(), 40, 1, VALUES, 0.05, seed=1)
    assert (numbers["programs"] == 0).all()
    assert numbers["share"].null_count() == len(numbers)


def test_too_few_programs_are_one_line():
    with pytest.raises(
        InputError, match=r"evaluate\.patch_programs: 10 pairs with three different comparators"
    ):
        patching(Two(), 10, 1, Values(low=2, high=2), 0.05, seed=1)
    with pytest.raises(InputError, match=r"evaluate\.lens_programs: 5 held-out comparisons .* 0 were found"):
        logit_lens(KnowsItself(), 5, Values(low=900, high=950), 0.05, seed=1)
