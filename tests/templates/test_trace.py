"""trace: the values are those of the machine, and a wrong one makes the program false."""

import re

import numpy as np
import pytest

from cadmus.config import OPERATORS, Dataset
from cadmus.dataset.sampler import sample
from cadmus.vm import reference
from tests.templates.conftest import COUNT

WRITTEN = ("steps", "last", "answer")
CLAIM = re.compile(r"E([^=]*)=/")


def pairs(split="train", **fields):
    """Return prompts and completions of sampled programs."""
    ood = {"unseen": {"prompt_length": [7, 7]}} if split == "ood" else {}
    dataset = Dataset.model_validate({"templates": {"trace": fields}, "ood": ood})
    drawn = sample(dataset, 1, "trace", split, 0, COUNT)
    lengths = drawn.prompt_length.tolist()
    return [(text[:k], text[k:]) for text, k in zip(drawn.programs.to_strings(), lengths, strict=True)]


def value(text):
    (number,) = reference.run(text).outputs
    return number.value


def tops(expression):
    """Return the value on top after each operator."""
    return [step.stack[-1].value for step in reference.trace(expression) if step.symbol in OPERATORS]


def test_a_trace_repeats_the_expression_with_the_value_after_each_operator():
    for prompt, trace in pairs():
        assert CLAIM.sub("", trace) == f"{prompt}="
        assert [value(claim) for claim in CLAIM.findall(trace)] == tops(prompt)
        # Operators and checks alternate; no literal has a check.
        assert re.fullmatch(rf"(?:[0-9]|[{re.escape(OPERATORS)}]E[^=]*=/)+=", trace)
        assert reference.run(prompt + trace).outputs == [reference.Number(1, 0)]


def test_a_wrong_value_makes_all_that_follows_nan():
    rng = np.random.default_rng(1)
    for prompt, trace in pairs()[:500]:
        claims = list(CLAIM.finditer(trace))
        wrong = claims[rng.integers(len(claims))]
        other = f"{trace[: wrong.start()]}E{wrong[1]}{'~' * bool(value(wrong[1])) or chr(39)}=/"
        assert reference.run(prompt + other).outputs[-1] is None
        assert reference.run(prompt + other + trace[wrong.end() :]).outputs == [None]


def test_the_last_value_alone_and_the_answer_alone():
    for prompt, trace in pairs(written="last"):
        assert CLAIM.sub("", trace) == f"{prompt}="
        assert [value(claim) for claim in CLAIM.findall(trace)] == tops(prompt)[-1:]
        assert trace.endswith("=/=")
    for prompt, answer in pairs(written="answer"):
        assert value(answer.removesuffix("=")) == tops(prompt)[-1]


@pytest.mark.parametrize("written", WRITTEN)
def test_lengths_are_as_configured_and_can_be_unseen(written):
    assert {len(prompt) for prompt, _ in pairs(written=written)} == {3, 5, 7}
    assert {len(prompt) for prompt, _ in pairs(written=written, expression_lengths=[5])} == {5}
    assert {len(prompt) for prompt, _ in pairs("ood", written=written)} == {7}
