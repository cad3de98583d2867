"""Completions: sampled in numbered order, and verified by execution."""

from itertools import islice

import numpy as np
import pytest

from cadmus import isa
from cadmus.model import completing
from cadmus.model.completing import Completion, complete, log_probabilities
from cadmus.model.inference import Cadmus
from cadmus.model.verifying import drops, verified
from cadmus.programs import Programs
from cadmus.vm import reference
from tests.model.models import FLOAT_NOISE, ending_model, random_programs

LIMIT = 15
PREFIXES = random_programs(12, 1, 8, seed=5).to_strings()


@pytest.fixture(scope="module")
def model() -> Cadmus:
    return Cadmus(ending_model())


def test_greedy_completions_are_those_of_the_model(model):
    found = list(complete(model, PREFIXES, LIMIT))
    texts, ended = model.complete(PREFIXES, LIMIT)
    assert [each.text for each in found] == texts.to_strings()
    assert [each.ended for each in found] == ended.tolist()
    assert [each.program for each in found] == [each.prefix + each.text for each in found]
    assert {each.written[-1:] == isa.END for each in found} == {True, False}


@pytest.mark.parametrize(
    ("completion", "valid"),
    [
        (Completion("34+7", "=", True), True),
        (Completion("34+7", "=", False), False),
        (Completion("34+8", "=", True), False),
        (Completion("34+7", "=0_", True), False),
        (Completion("34+7=0_", "", True), True),
        (Completion("1", "", True), True),
    ],
)
def test_a_verified_completion_is_true_ended_and_drops_nothing(completion, valid):
    prompt, text = (Programs.from_strings([part]) for part in (completion.prefix, completion.text))
    assert verified(prompt, text, np.array([completion.ended])).tolist() == [valid]
    assert completion.result == reference.run(completion.program)


def test_drops_of_a_part_of_a_batch():
    batch = Programs.from_strings(["_", "12", "", "1_2", "_"])
    assert drops(batch).tolist() == [True, False, False, True, True]
    part = Programs(batch.data, batch.offsets[1:4])
    assert drops(part).tolist() == [False, False]


def test_a_sample_depends_on_its_number_and_not_on_the_batches(model, monkeypatch):
    def samples(**options: int) -> list[Completion]:
        return list(complete(model, PREFIXES, LIMIT, samples=3, temperature=1.0, **options))

    whole = samples()
    assert len({each.text for each in whole}) > len(PREFIXES)
    assert samples(seed=1) != whole
    for size in (1, 4):
        monkeypatch.setattr(completing, "AT_ONCE", size)
        assert samples() == whole


def test_samples_come_one_batch_at_a_time(model):
    endless = complete(model, PREFIXES[:1], LIMIT, samples=10**30, temperature=1.0)
    assert [each.prefix for each in islice(endless, 2)] == PREFIXES[:1] * 2


def test_log_probabilities_are_those_of_the_steps(model):
    found = list(complete(model, PREFIXES, LIMIT))
    for completion, steps in zip(found, log_probabilities(model, found), strict=True):
        assert "".join(isa.INSTRUCTIONS[token].symbol for token in steps.argmax(1)) == completion.written
        np.testing.assert_allclose(np.exp(steps).sum(1), 1, atol=10 * FLOAT_NOISE)
