"""Logit lens, on a model with known logits."""

import numpy as np
import pytest

from cadmus import isa
from cadmus.errors import InputError
from cadmus.experiments.lens import measure
from cadmus.programs import Programs
from tests.experiments.subjects import subject_of


class KnowsItself:
    """Logits of three layers: zeros, 3 nats for the program's next instruction, and always ``<``."""

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


def test_the_lens_gives_loss_and_agreement_by_layer():
    results = measure(subject_of(KnowsItself(), -3, 3, {"lens": {"programs": 150}}))
    assert results.height == 3 * 11
    nothing, own, last = (results.filter(layer=layer) for layer in range(3))
    vocabulary = isa.VOCABULARY_SIZE
    assert nothing["loss"].to_list() == pytest.approx([np.log(vocabulary)] * 11)
    assert own["loss"].to_list() == pytest.approx([np.log(np.exp(3) + vocabulary - 1) - 3] * 11, rel=1e-5)
    assert own["accuracy"].to_list() == [1] * 11
    assert last["agreeing"].to_list() == [150] * 11
    # The last layer is correct if the comparator is <.
    at_comparator = last.filter(token=10)
    assert 0 < at_comparator["accuracy"][0] < 1
    assert at_comparator["correct"][0] == own.filter(token=10)["agreeing"][0]


def test_too_few_programs_are_an_error():
    with pytest.raises(InputError, match=r"evaluate\.lens\.programs: needs 5 test .* only 0 were found"):
        measure(subject_of(KnowsItself(), 900, 950, {"lens": {"programs": 5}}))
