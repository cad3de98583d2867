"""Programs that define and call subroutines."""

import numpy as np
import pytest

from cadmus import isa
from cadmus.config import Dataset
from cadmus.dataset.sampler import sample
from cadmus.vm import reference
from tests.templates.conftest import COUNT


@pytest.fixture(scope="module")
def subroutines():
    drawn = sample(Dataset(), 1, "subroutines", "train", 0, COUNT)
    return list(zip(drawn.programs.to_strings(), drawn.prompt_length.tolist(), drawn.x, drawn.y, strict=True))


def test_prompts_end_before_the_comparator_or_the_last_definition(subroutines):
    completed = [text[prompt:] for text, prompt, _, _ in subroutines]
    before = [text for text in completed if text in {"<", ">", "="}]
    after = [text for text in completed if text.count("\\") == 1 == text.count(";")]
    assert len(before) + len(after) == COUNT
    assert all(text.startswith("\\") and text.endswith(";") for text in after)
    assert min(len(before), len(after)) > COUNT / 3


def test_every_kind_of_call_and_recursion_occurs(subroutines):
    texts = [text for text, _, _, _ in subroutines]
    assert {text.count("\\") for text in texts} == {1, 2, 3}
    top = [isa.split_definitions(text)[0] for text in texts]
    for call in "fghFG":
        assert sum(call in text for text in top) > COUNT / 100
    bodies = [body for text in texts for body in isa.split_definitions(text)[1]]
    assert sum("R" in body for body in bodies) > COUNT / 20
    assert sum(bool(set("fgF") & set(body)) for body in bodies) > COUNT / 20
    # A definition between the call and the comparator.
    assert sum(text[0] != "\\" and "\\" in text and text[-1] != ";" for text in texts) > COUNT / 20


def test_values_are_recorded(subroutines):
    low, high = Dataset().values.low, Dataset().values.high
    for text, _, x, y in subroutines:
        top, bodies = isa.split_definitions(text)
        definitions = "".join(f"\\{body};" for body in bodies)
        left, right = reference.run(definitions + top[:-1]).outputs
        assert (left.value, right.value) == (x, y)
        assert top[-1] == "<=>"[np.sign(x - y) + 1]
        assert low <= x <= high
        assert low <= y <= high
    before = [x == y for text, _, x, y in subroutines if text[-1] != ";"]
    assert len(before) / 3 < sum(before) < 0.55 * len(before)
    # Few functions meet the request for a definition.
    assert all(x == y for text, _, x, y in subroutines if text[-1] == ";")


def test_recursion_is_deeper_than_one_call(subroutines):
    def depth_matters(text):
        """True if the program changes when recursive calls return their argument."""
        return not reference.run(text.replace("R", "_")).true

    recursive = [text for text, _, _, _ in subroutines if "R" in text]
    assert sum(map(depth_matters, recursive)) > len(recursive) / 10
