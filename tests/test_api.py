"""Public API: ``from cadmus import run, sample, Cadmus``."""

import pickle
from collections.abc import Callable
from itertools import islice

import numpy as np
import pytest
import torch
import transformers

import cadmus
from cadmus import Cadmus, isa, run, sample
from cadmus.model import DEFAULT_MODEL
from cadmus.programs import Programs
from tests.model.models import FLOAT_NOISE


def test_sampled_programs_are_true_and_reproducible():
    programs = sample("equality", 50)
    assert len(set(programs)) == 50
    assert all(run(program).true for program in programs)
    assert programs == sample("equality", 50)
    assert not set(programs) & set(sample("equality", 50, seed=2))
    assert not set(programs) & set(sample("equality", 50, split="test"))


def test_model_accepts_strings_or_a_batch():
    model = Cadmus.load()
    prompts = ["81*5+92*3-", "u1b2b3b$", "62*4+54*4-"]
    batch = Programs.from_strings(prompts)
    np.testing.assert_array_equal(model.next_logits(prompts), model.next_logits(batch))
    completions, ended = model.complete(prompts)
    assert (completions.to_strings(), ended.tolist()) == (["<", "6=", "="], [True] * 3)
    assert (completions.lengths + batch.lengths).max() <= model.max_length


@pytest.mark.parametrize(
    ("programs", "message"),
    [
        ("34+7", r"is one string; give a list of programs: \['34\+7'\]"),
        (["34+7=."], "has its end . at position 6"),
        (["3q"], "unknown symbol 'q' at position 2"),
    ],
)
def test_model_rejects_bad_programs(programs, message):
    with pytest.raises(ValueError, match=message):
        Cadmus.load().next_logits(programs)


def test_attention_matches_transformers():
    programs = ["941-*55*2+", "62*4+54*4-"]
    ((rows, ours),) = Cadmus.load().attention(programs)
    assert rows == slice(0, 2)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(DEFAULT_MODEL, attn_implementation="eager")
    tokens = torch.tensor([[isa.TOKEN_ID[symbol] for symbol in program] for program in programs])
    with torch.inference_mode():
        expected = torch.stack(theirs(tokens, output_attentions=True).attentions)
    np.testing.assert_allclose(ours, expected.numpy(), atol=FLOAT_NOISE)


def calls() -> dict[str, Callable[[], object]]:
    """Return calls of the public functions and of the methods of a model."""
    model, prompts = Cadmus.load(), ["62*4+54*4-", "81*5+92*3-"]
    task = next(cadmus.tasks("equality"))
    return {
        "run": lambda: run("34+7="),
        "trace": lambda: cadmus.trace("34+7="),
        "stacks": lambda: cadmus.stacks("62*4+54*4-"),
        "sample": lambda: sample("equality", 5),
        "tasks": lambda: list(islice(cadmus.tasks("equality"), 3)),
        "verify": lambda: cadmus.verify(task, "="),
        "prefix_values": lambda: cadmus.prefix_values(task, "5"),
        "complete": lambda: model.complete(prompts, samples=3, temperature=1.0, seed=1),
        "next_logits": lambda: model.next_logits(prompts),
        "next_tokens": lambda: model.next_tokens(prompts),
        "log_probabilities": lambda: model.log_probabilities(prompts),
        "hidden_states": lambda: list(model.hidden_states(prompts)),
        "layer_logits": lambda: list(model.layer_logits(prompts)),
        "attention": lambda: list(model.attention(prompts)),
        "induce": lambda: model.induce(["[1, 2, 3] -> 6", "[4, 5] -> 9"]),
    }


@pytest.mark.parametrize("name", calls())
def test_a_second_call_gives_the_same(name):
    call = calls()[name]
    assert pickle.dumps(call()) == pickle.dumps(call())


def test_dir_lists_the_public_names():
    assert set(cadmus.__all__) <= set(dir(cadmus))
    assert all(getattr(cadmus, name) for name in cadmus.__all__)
    with pytest.raises(AttributeError, match="no attribute 'smaple'"):
        _ = cadmus.smaple
