"""Masked diffusion: what attends to what, completions, likelihoods, holes."""

import numpy as np
import pytest
import torch

from cadmus import isa
from cadmus.errors import InputError
from cadmus.labs.diffusion.decoding import fill
from cadmus.model.gpt import MASK_ID
from cadmus.model.inference import Cadmus
from cadmus.programs import Programs
from tests.model.models import FLOAT_NOISE, SIZES, random_model, random_programs

FULL = SIZES.model_copy(update={"attention": "full"})


@pytest.fixture(scope="module")
def model():
    return random_model(FULL)


def test_a_prompt_attends_to_itself_and_a_canvas_to_all(model):
    segments = torch.tensor([[0, 0, 1, 1, 4, 5, -1]])
    visible = model.visible(segments)[0].int().tolist()
    prompt, canvas = [1, 1, 0, 0, 0, 0, 0], [1, 1, 1, 1, 0, 0, 0]
    assert visible[:4] == [prompt, prompt, canvas, canvas]
    assert visible[4:] == [[0, 0, 0, 0, 1, 0, 0], [0, 0, 0, 0, 1, 1, 0], [0, 0, 0, 0, 0, 0, 1]]


def test_no_logit_is_of_the_mask(model):
    assert model.embed_in.num_embeddings == isa.VOCABULARY_SIZE + 1
    tokens = torch.tensor([[3, MASK_ID]])
    assert model(tokens, torch.tensor([[0, 1]]), torch.tensor([[0, 1]])).shape == (1, 2, isa.VOCABULARY_SIZE)


def logits_of(model, prompt: str, canvas: list[int]) -> torch.Tensor:
    """Return the logits of a canvas, without the cache."""
    tokens = torch.tensor([[*(isa.TOKEN_ID[symbol] for symbol in prompt), *canvas]])
    segments = torch.tensor([[0] * len(prompt) + [1] * len(canvas)])
    return model(tokens, torch.arange(tokens.shape[1])[None], segments)[0, len(prompt) :].detach()


@pytest.mark.parametrize("left", [False, True])
def test_each_step_replaces_the_most_certain_mask_or_the_leftmost_one(model, left):
    prompts, steps = Programs.from_strings(["34+7", "62*4+5", "1"]), {0: [], 1: [], 2: []}

    def choose(logits, rows, positions):
        for row, position in zip(rows.tolist(), positions.tolist(), strict=True):
            steps[row].append(position)
        return logits.argmax(-1).numpy()

    lengths = [8, 3, 5]
    filled = fill(Cadmus(model), prompts, np.array(lengths), choose, left)
    for row, (prompt, length) in enumerate(zip(prompts.to_strings(), lengths, strict=True)):
        canvas = [MASK_ID] * length
        for place in steps[row]:
            masked = [at for at in range(length) if canvas[at] == MASK_ID]
            logits = logits_of(model, prompt, canvas)
            certain = logits.softmax(-1).max(-1).values
            assert place == (masked[0] if left else max(masked, key=lambda at: float(certain[at])))
            canvas[place] = int(logits[place].argmax())
        assert canvas == filled[row, :length].tolist()


def test_samples_depend_on_the_seed_and_their_own_prompt_alone(model):
    prompts = random_programs(40, 2, 20)
    options = {"max_length": 30, "temperature": 1.0, "seed": 4}
    whole, ended = Cadmus(model).complete(prompts, **options)
    assert ended.all()
    assert (prompts.lengths + whole.lengths <= 30).all()
    few, _ = Cadmus(model, batch_size=7).complete(prompts.take(np.arange(15)), **options)
    assert few.to_strings() == whole.to_strings()[:15]
    later, _ = Cadmus(model).complete(prompts.take(np.arange(5, 15)), **options, first=5)
    assert later.to_strings() == whole.to_strings()[5:15]
    other, _ = Cadmus(model).complete(prompts, 30, temperature=1.0, seed=5)
    assert other.to_strings() != whole.to_strings()


def test_likelihoods_are_those_of_sampling(model):
    """All completions of a prompt, of at most one token, have the probability that is left for them."""
    cadmus = Cadmus(model)
    symbols = [row.symbol for row in isa.INSTRUCTIONS]
    programs = Programs.from_strings(["34", *("34" + symbol for symbol in symbols)])
    found = cadmus.decoder.log_likelihoods(cadmus, programs, np.full(len(programs), 2))
    lengths = cadmus.prompt_logits(Programs.from_strings(["34"])).log_softmax(-1)[0].detach()
    assert found[0] == pytest.approx(lengths[0].item(), abs=FLOAT_NOISE)
    assert np.logaddexp.reduce(found[1:]) == pytest.approx(lengths[1].item(), abs=FLOAT_NOISE)
    # Two tokens, from the left: the second one given the first.
    (pair,) = cadmus.decoder.log_likelihoods(cadmus, Programs.from_strings(["34+7"]), np.array([2]))
    plus, seven = isa.TOKEN_ID["+"], isa.TOKEN_ID["7"]
    first = logits_of(model, "34", [MASK_ID, MASK_ID])[0].log_softmax(-1)[plus]
    second = logits_of(model, "34", [plus, MASK_ID])[1].log_softmax(-1)[seven]
    assert pair == pytest.approx((lengths[2] + first + second).item(), abs=10 * FLOAT_NOISE)
    # A loss is the mean over the length and the tokens.
    (loss,) = cadmus.completion_losses(Programs.from_strings(["34+7"]), np.array([2]))
    assert loss == pytest.approx(-pair / 3)


def test_the_next_token_is_a_completion_of_one(model):
    prompts = ["34+7", "1"]
    found = Cadmus(model).next_logits(prompts)
    for prompt, logits in zip(prompts, found, strict=True):
        np.testing.assert_allclose(logits, logits_of(model, prompt, [MASK_ID])[0], atol=FLOAT_NOISE)


def test_what_needs_a_causal_model_says_so(model):
    cadmus = Cadmus(model)
    for ask in (cadmus.log_probabilities, cadmus.states, lambda given: next(cadmus.hidden_states(given))):
        with pytest.raises(InputError, match=r"needs a causal model; model.attention of this one is full"):
            ask(["34+7"])
