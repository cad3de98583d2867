"""Labelling of sequences and elements."""

from collections import Counter

from cadmus.config import Dataset
from cadmus.dataset.sampler import sample
from cadmus.vm import reference
from tests.templates.conftest import COUNT


def test_the_answer_is_the_label():
    programs = sample(Dataset(), 1, "apply_labels", "train", 0, COUNT)
    seen = Counter()
    for text, prompt in zip(programs.programs.to_strings(), programs.prompt_length, strict=True):
        answer = text[prompt:]
        (label,) = reference.run(text[:prompt]).outputs
        if isinstance(label, reference.Number):
            assert answer == f"{label.value}="
            seen[answer] += 1
        else:
            assert answer.endswith("Y")
            seen["elements"] += 1
            seen["decorated"] += ":" in answer
    assert 0.4 < seen["elements"] / COUNT < 0.6
    assert 0.35 < seen["0="] / (seen["0="] + seen["1="]) < 0.65
    assert seen["decorated"] > seen["elements"] / 2
