"""Logits, completions, hidden states and patching."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cadmus import config, isa
from cadmus.model import gpt, inference
from cadmus.model.decoding import TokenSampler
from cadmus.model.gpt import GPT
from cadmus.model.inference import Cadmus
from cadmus.programs import Programs, join
from tests.model.models import (
    FLOAT_NOISE,
    SIZES,
    ending_model,
    random_model,
    random_programs,
    unpacked_logits,
)


def test_next_logits_follow_the_last_instruction():
    model = random_model()
    prompts = random_programs(25, 1, 15)
    logits = Cadmus(model, batch_size=7).next_logits(prompts)
    assert logits.dtype == np.float32
    with torch.inference_mode():
        for row, prompt in zip(logits, prompts.to_strings(), strict=True):
            np.testing.assert_allclose(row, unpacked_logits(model, prompt)[-1].numpy(), atol=FLOAT_NOISE)


def recomputed(model: GPT, prompt: str, max_length: int) -> tuple[str, bool]:
    """Greedy decoding in the plainest way."""
    program = prompt
    while True:
        with torch.inference_mode():
            symbol = isa.INSTRUCTIONS[int(unpacked_logits(model, program)[-1].argmax())].symbol
        if symbol == isa.END or len(program) == max_length:
            return program[len(prompt) :], symbol == isa.END
        program += symbol


@pytest.mark.parametrize(("prompt_tokens", "spare"), [(2048, 16), (30, 1), (1, 3)])
def test_completions_equal_full_recomputation(monkeypatch, prompt_tokens, spare):
    monkeypatch.setitem(inference.PROMPT_TOKENS, "cpu", prompt_tokens)
    monkeypatch.setattr(gpt, "SPARE", spare)
    model = ending_model()
    prompts = random_programs(60, 1, 20)
    completions, ended = Cadmus(model, batch_size=16).complete(prompts, 20)
    expected = [recomputed(model, prompt, 20) for prompt in prompts.to_strings()]
    assert list(zip(completions.to_strings(), ended.tolist(), strict=True)) == expected
    assert 0.1 < ended.mean() < 0.9
    assert len(set(completions.lengths[ended].tolist())) >= 3


def test_a_gpu_completes_more_at_a_time_unless_the_cache_were_too_large():
    cadmus = Cadmus(random_model(), max_length=100)
    assert cadmus.batch_size == 512
    cadmus.device = torch.device("cuda")
    assert cadmus._default_batch_size() == 4096
    # The sizes of config/paper.yaml, without its weights: 18 MB per program.
    cadmus.sizes = config.Model(layers=18, width=1280, heads=20, mlp=3600)
    assert cadmus._default_batch_size() == 466


@given(st.lists(st.integers(1, 50)).map(sorted), st.integers(1, 200))
def test_parts_are_as_long_as_fits(lengths, most):
    def fits(rows: int, shortest: int, longest: int) -> bool:
        return rows * longest - shortest <= most

    parts = list(inference._parts(np.array(lengths), fits))
    assert [row for part in parts for row in range(part.start, part.stop)] == list(range(len(lengths)))
    for part in parts:
        rows, shortest = part.stop - part.start, lengths[part.start]
        assert rows == 1 or fits(rows, shortest, lengths[part.stop - 1])
        assert part.stop == len(lengths) or not fits(rows + 1, shortest, lengths[part.stop])


def test_no_prompts_give_no_completions():
    completions, ended = Cadmus(random_model()).complete(Programs.from_strings([]), 10)
    assert len(completions) == len(ended) == 0


def test_empty_and_too_long_prompts_are_rejected():
    model = Cadmus(random_model())
    for ask in (model.next_logits, model.complete, model.log_probabilities):
        with pytest.raises(ValueError, match="empty"):
            ask(Programs.from_strings(["1", ""]))
    with pytest.raises(ValueError, match="longer than max_length 5"):
        model.complete(Programs.from_strings(["123456"]), 5)


def test_max_length_may_differ_per_prompt():
    model = Cadmus(random_model(), batch_size=7)
    prompts = random_programs(40, 1, 12)
    limits = prompts.lengths + np.random.default_rng(2).integers(0, 15, len(prompts))
    completions, ended = model.complete(prompts, limits)
    for row, limit in enumerate(limits):
        one, end = model.complete(prompts.take(np.array([row])), int(limit))
        assert (one.to_strings()[0], end[0]) == (completions.to_strings()[row], ended[row])
    with pytest.raises(ValueError, match="longer than max_length"):
        model.complete(prompts, prompts.lengths - (np.arange(len(prompts)) == 3))


def test_several_samples_of_a_prompt_are_its_copies():
    model = Cadmus(random_model(), batch_size=7)
    prompts = random_programs(6, 1, 12)
    limits = prompts.lengths + np.arange(6)
    drawn, ended = model.complete(prompts, limits, samples=3, temperature=2.0, top_p=0.95, seed=4)
    copies = np.repeat(np.arange(6), 3)
    sampler = TokenSampler(18, 2.0, 4, 0.95)
    expected = model.decoder.complete(model, prompts.take(copies), limits[copies], sampler)
    assert drawn.to_strings() == expected[0].to_strings()
    assert ended.tolist() == expected[1].tolist()
    assert len(set(drawn.to_strings()[15:])) > 1
    twice, once = (model.complete(prompts, limits, samples=n)[0].to_strings() for n in (2, 1))
    assert twice[::2] == twice[1::2] == once


@pytest.mark.parametrize(
    "options", [{"samples": 0}, {"temperature": -0.5}, {"top_p": 0}, {"temperature": float("nan")}]
)
def test_sampling_options_out_of_range_are_rejected(options):
    with pytest.raises(ValueError, match=f"got .*{next(iter(options.values()))}"):
        Cadmus(random_model()).complete(["1"], 5, **options)


def test_log_probabilities_match_greedy_completions(monkeypatch):
    monkeypatch.setitem(inference.PROMPT_TOKENS, "cpu", 40)
    made = ending_model()
    model = Cadmus(made, batch_size=8)
    prompts = random_programs(30, 1, 12)
    completions, ended = model.complete(prompts, 20)
    programs = join(prompts, completions)
    found = model.log_probabilities(programs)
    assert [len(of_program) for of_program in found] == programs.lengths.tolist()
    texts = zip(prompts.to_strings(), completions.to_strings(), strict=True)
    for row, (prompt, completion) in enumerate(texts):
        with torch.inference_mode():
            expected = unpacked_logits(made, prompt + completion).log_softmax(-1).numpy()
        np.testing.assert_allclose(found[row], expected, atol=FLOAT_NOISE)
        followed = [isa.INSTRUCTIONS[token].symbol for token in found[row][len(prompt) - 1 :].argmax(1)]
        written = completion + isa.END * bool(ended[row])
        assert "".join(followed[: len(written)]) == written
    assert model.log_probabilities(Programs.from_strings([])) == []


def in_three_batches(model: GPT, method: str, programs: Programs) -> np.ndarray:
    """Return what a method yields of ten programs, in one array."""
    parts = list(getattr(Cadmus(model, batch_size=4), method)(programs))
    assert [(part.start, part.stop) for part, _ in parts] == [(0, 4), (4, 8), (8, 10)]
    return np.concatenate([values for _, values in parts], axis=1)


def test_hidden_states_are_the_residual_stream():
    model = random_model()
    programs = random_programs(10, 6, 6)
    states = in_three_batches(model, "hidden_states", programs)
    assert states.shape == (SIZES.layers + 1, 10, 6, SIZES.width)
    tokens = torch.from_numpy(programs.to_tokens())
    with torch.inference_mode():
        np.testing.assert_array_equal(states[0], model.embed_in(tokens).numpy())
        logits = model.logits(torch.from_numpy(states[-1][:, -1])).numpy()
    np.testing.assert_allclose(logits, Cadmus(model).next_logits(programs), atol=FLOAT_NOISE)
    with pytest.raises(ValueError, match="different lengths"):
        next(Cadmus(model).hidden_states(Programs.from_strings(["12", "1"])))


def test_the_last_layer_of_the_logit_lens_has_the_logits_of_the_model():
    model = random_model()
    programs = random_programs(10, 6, 6)
    logits = in_three_batches(model, "layer_logits", programs)
    assert logits.shape == (SIZES.layers + 1, 10, 6, isa.VOCABULARY_SIZE)
    np.testing.assert_allclose(logits[-1][:, -1], Cadmus(model).next_logits(programs), atol=FLOAT_NOISE)
    assert np.abs(logits[0] - logits[-1]).max() > 0.1


@pytest.mark.parametrize("token", [2, 5])
def test_logits_from_patched_states(token):
    model = Cadmus(random_model())
    programs = random_programs(10, 6, 6)
    donors = programs.take(np.arange(10)[::-1])
    own, donor = model.next_logits(programs), model.next_logits(donors)
    for layer in range(SIZES.layers + 1):
        states, ends = model.states(programs)[layer], torch.full((10,), 5)
        same = model.logits_from(states, layer, ends).detach().numpy()
        np.testing.assert_allclose(same, own, atol=FLOAT_NOISE)
        states[:, token] = model.states(donors)[layer][:, token]
        patched = model.logits_from(states, layer, ends).detach().numpy()
        # Behind the last layer only the last token is read.
        if layer < SIZES.layers or token == 5:
            assert np.abs(patched - own).max() > 0.1
        else:
            np.testing.assert_allclose(patched, own, atol=FLOAT_NOISE)
    if token == 5:
        np.testing.assert_allclose(patched, donor, atol=FLOAT_NOISE)
