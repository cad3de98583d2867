"""Sampling: frequencies, and independence of batches and of other prompts."""

import numpy as np
import pytest
import torch

from cadmus import isa
from cadmus.model import decoding
from cadmus.model.decoding import TokenSampler
from cadmus.model.inference import Cadmus
from cadmus.programs import Programs
from tests.model.models import ending_model, random_programs


def model(batch_size: int = 512) -> Cadmus:
    return Cadmus(ending_model(), batch_size)


def texts(batch_size: int, prompts: Programs, seed: int = 3) -> list[str]:
    completions, ended = model(batch_size).complete(prompts, 20, temperature=1.0, seed=seed)
    pairs = zip(completions.to_strings(), ended.tolist(), strict=True)
    return [completion + isa.END * end for completion, end in pairs]


def test_samples_do_not_depend_on_the_batch_size():
    prompts = random_programs(20, 1, 12).take(np.repeat(np.arange(20), 4))
    wanted = texts(64, prompts)
    assert len(set(wanted)) > 40
    for batch_size in (1, 7, 512):
        assert texts(batch_size, prompts) == wanted


def test_samples_depend_on_the_seed_and_not_on_other_prompts():
    prompts = random_programs(20, 1, 12)
    wanted = texts(64, prompts)
    assert texts(64, prompts) == wanted
    assert texts(64, prompts, seed=4) != wanted
    assert texts(64, prompts.take(np.arange(8))) == wanted[:8]
    others = random_programs(20, 1, 12).take(np.array([*range(8), *range(19, 7, -1)]))
    assert texts(64, others)[:8] == wanted[:8]


def test_frequencies_are_the_probabilities_at_the_temperature():
    draws = 20_000
    logits = torch.linspace(-2, 2, isa.VOCABULARY_SIZE)
    drawn = TokenSampler(draws, 0.5, 1)(logits.expand(draws, -1), np.arange(draws))
    expected = draws * (logits / 0.5).softmax(0).numpy()
    likely = expected >= 5
    deviations = np.bincount(drawn, minlength=isa.VOCABULARY_SIZE)[likely] - expected[likely]
    assert np.abs(deviations / np.sqrt(expected[likely])).max() < 4.5


@pytest.mark.parametrize(
    ("probabilities", "top_p", "expected"),
    [
        ([0.1, 0.5, 0.15, 0.25], 0.7, [0, 2 / 3, 0, 1 / 3]),
        ([0.1, 0.5, 0.15, 0.25], 0.4, [0, 1, 0, 0]),
        # The first reaches 0.5 alone.
        ([0.5, 0.5], 0.5, [1, 0]),
    ],
)
def test_the_nucleus_ends_with_the_instruction_that_reaches_top_p(probabilities, top_p, expected):
    draws = 20_000
    logits = torch.tensor(probabilities).log().expand(draws, -1)
    drawn = TokenSampler(draws, 1.0, 1, top_p)(logits, np.arange(draws))
    found = np.bincount(drawn, minlength=len(expected)) / draws
    assert found == pytest.approx(np.array(expected), abs=0.02)
    assert ((found > 0) == (np.array(expected) > 0)).all()


def test_steps_of_a_prompt_are_independent():
    draws, logits = 20_000, torch.zeros(1, 2)
    sampler = TokenSampler(draws, 1.0, 1)
    first, second = (sampler(logits.expand(draws, -1), np.arange(draws)) for _ in range(2))
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.03


def test_a_random_number_next_to_one_is_in_the_nucleus(monkeypatch):
    class Highest:
        def random(self, size: int) -> np.ndarray:
            return np.full(size, np.nextafter(1.0, 0.0))

    monkeypatch.setattr(decoding, "generator", lambda *_: Highest())
    logits = torch.zeros(1, 65)
    logits[0, 7] = 20
    assert TokenSampler(1, 1.0, 0, top_p=0.9)(logits, np.array([0])).tolist() == [7]


@pytest.mark.parametrize("batch_size", [3, 512])
def test_equal_prompts_are_computed_once(monkeypatch, batch_size):
    asked = []
    whole = Cadmus.prompt_logits

    def count(self, prompts, cache=None):
        asked.extend(prompts.to_strings())
        return whole(self, prompts, cache)

    monkeypatch.setattr(Cadmus, "prompt_logits", count)
    prompts = Programs.from_strings(["34+7"] * 5 + ["12"] + ["1"] * 2)
    made = model(batch_size)
    completions, _ = made.complete(prompts, 12)
    expected = [made.complete([prompt], 12)[0].to_strings()[0] for prompt in prompts.to_strings()]
    assert completions.to_strings() == expected
    assert sorted(asked[: -len(prompts)]) == sorted(["1", "12", "34+7"] + ["34+7"] * (batch_size == 3))
