"""Induction from examples."""

import re
from collections import Counter

from cadmus import isa
from cadmus.config import Dataset
from cadmus.dataset.sampler import sample
from cadmus.vm import reference
from tests.templates.conftest import COUNT


def examples_of(text):
    """The examples of a program of complete_algorithm: the value called on, the call and its result."""
    top, (body,) = isa.split_definitions(text)
    found = re.findall(r"(?:u(?:[0-9tZ]b)*|[0-9tZ]I?)(?:[0-9tZ])?[fFlmw](?:!|[^fFlmw]*?[=Y])?", top)
    assert "".join(found) == top
    return found, body


def test_results_of_the_examples_differ():
    programs = sample(Dataset(), 1, "complete_algorithm", "train", 0, COUNT)
    calls = Counter()
    for text, prompt in zip(programs.programs.to_strings(), programs.prompt_length, strict=True):
        found, body = examples_of(text)
        assert text[prompt:] == f"\\{body};"
        assert 1 <= len(found) <= 8
        assert not reference.run(text[:prompt]).true, "without its definition no example holds"
        (call,) = {symbol for example in found for symbol in example if symbol in "fFlmw"}
        calls[call] += 1
        results = {example.split(call)[1] for example in found}
        if results & {"", "!"}:
            # Labels: some examples are denied, some are not.
            calls["labels"] += 1
            assert results == {"", "!"} or len(found) == 1
        else:
            assert len(results) > 1 or len(found) == 1
    assert set(calls) == {"f", "F", "l", "m", "w", "labels"}
    assert min(calls.values()) > COUNT / 50
    assert calls["labels"] > COUNT / 4


def test_the_number_of_examples_is_configured():
    fields = {"examples": [6, 6], "sequence_length": [1, 2]}
    dataset = Dataset.model_validate({"templates": {"complete_algorithm": fields}})
    programs = sample(dataset, 1, "complete_algorithm", "train", 0, 200)
    assert {len(examples_of(text)[0]) for text in programs.programs.to_strings()} == {6}
