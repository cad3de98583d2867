"""Loss on completions, on a model with known probabilities."""

import numpy as np
import polars as pl
import pytest

from cadmus import isa
from cadmus.evaluate.statistics.results import loss_by
from cadmus.experiments.loss import measure
from cadmus.model.decoding import LeftToRight
from cadmus.model.inference import Cadmus
from cadmus.programs import Programs, Samples
from tests.experiments.subjects import subject_of


class KnowsTheEnd:
    """After ``<`` the end has the probability 1/2, anywhere else every instruction has the same one."""

    decoder = LeftToRight()
    completion_losses = Cadmus.completion_losses

    def log_probabilities(self, programs: Programs) -> list[np.ndarray]:
        found = []
        for text in programs.to_strings():
            of_tokens = np.full((len(text), isa.VOCABULARY_SIZE), -np.log(isa.VOCABULARY_SIZE))
            of_tokens[np.array(list(text)) == "<", isa.END_ID] = np.log(0.5)
            found.append(of_tokens)
        return found


def losses() -> pl.DataFrame:
    programs = ["12<", "1234<", "3;="]
    templates = np.array(["less_greater", "less_greater", "equality"], object)
    samples = Samples(Programs.from_strings(programs), np.array([2, 2, 2]), template=templates)
    subject = subject_of(KnowsTheEnd(), -9, 9, {})
    subject.test_programs = lambda: samples
    return measure(subject)


def test_the_loss_is_that_of_the_completion_and_its_end() -> None:
    found = losses()
    assert found["tokens"].to_list() == [2, 4, 2]
    other = np.log(isa.VOCABULARY_SIZE)
    half = np.log(2)
    assert found["loss"].to_list() == pytest.approx([(other + half) / 2, (3 * other + half) / 4, other])


def test_templates_are_weighted_by_tokens() -> None:
    other, half = np.log(isa.VOCABULARY_SIZE), np.log(2)
    found = loss_by(losses(), "template")
    assert found["template"].to_list() == ["less_greater", "equality"]
    assert found["loss"].to_list() == pytest.approx([(4 * other + 2 * half) / 6, other])
    assert (found["low"] <= found["loss"]).all()
    assert (found["loss"] <= found["high"]).all()
    (every,) = loss_by(losses()).to_dicts()
    assert (every["programs"], every["tokens"]) == (3, 8)
    assert every["loss"] == pytest.approx((6 * other + 2 * half) / 8)
