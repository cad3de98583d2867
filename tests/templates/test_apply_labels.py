"""Labelling of sequences and elements."""

from collections import Counter

from cadmus.config import Dataset
from cadmus.dataset.sampler import sample
from cadmus.vm import reference
from tests.templates.conftest import COUNT


def test_the_answer_is_an_exclamation_mark_for_label_0_only():
    programs = sample(Dataset(), 1, "apply_labels", "train", 0, COUNT)
    seen = Counter()
    for text, prompt in zip(programs.programs.to_strings(), programs.prompt_length, strict=True):
        answer = text[prompt:]
        (label,) = reference.run(text[:prompt]).outputs
        if isinstance(label, reference.Number):
            assert label.value in (0, 1)
            assert answer == ("!" if label.value == 0 else "")
            seen[answer] += 1
        else:
            assert answer.endswith("Y")
            seen["elements"] += 1
            seen["decorated"] += ":" in answer
    assert 0.4 < seen["elements"] / COUNT < 0.6
    assert 0.35 < seen["!"] / (seen["!"] + seen[""]) < 0.65
    assert seen["decorated"] > seen["elements"] / 2
