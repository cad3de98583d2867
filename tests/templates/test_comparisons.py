"""basic_math, equality and less_greater."""

from collections import Counter

import pytest

from cadmus.config import Dataset
from cadmus.dataset.sampler import sample
from cadmus.errors import InputError
from cadmus.evaluate.criteria import second_expressions
from cadmus.vm import reference
from tests.templates.conftest import COUNT

COMPARED = {"basic_math": "<>=", "equality": "=", "less_greater": "<>"}


@pytest.mark.parametrize("template", COMPARED)
def test_comparisons_record_their_values(template):
    programs = sample(Dataset(), 2, template, "train", 0, COUNT)
    limits = Dataset().values
    for text, prompt, x, y in zip(
        programs.programs.to_strings(), programs.prompt_length, programs.x, programs.y, strict=True
    ):
        left, right = reference.run(text[:-1]).outputs
        assert (left.value, right.value) == (x, y)
        if template == "equality":
            (asked,) = reference.run(text[:prompt]).outputs
            assert asked == left
            assert text[:prompt] not in text[prompt:]
        else:
            assert len(text) == prompt + 1
        assert text[-1] in COMPARED[template]
        assert limits.low <= x <= limits.high
        assert limits.low <= y <= limits.high
    if template != "basic_math":
        # Half of the numbers are uniform over the range, so all of it appears.
        assert set(programs.x.tolist()) == set(range(limits.low, limits.high + 1))


@pytest.mark.parametrize("template", COMPARED)
def test_lengths_and_operators_are_as_configured(template):
    for lengths, operators in (([1], "+"), ([7], "+-x"), ([1, 3, 5, 7], "*-")):
        fields = {"expression_lengths": lengths, "operators": operators}
        dataset = Dataset.model_validate({"templates": {template: fields}})
        if (template, lengths) == ("equality", [1]):
            # Two digits of one value are the same.
            with pytest.raises(InputError, match="655360 unfit"):
                sample(dataset, 1, template, "train", 0, 20)
            continue
        programs = sample(dataset, 1, template, "train", 0, 20 if lengths == [1] else 500).programs
        used, halves = set(), set()
        for text, start in zip(programs.to_strings(), second_expressions(programs), strict=True):
            right = 1 if template == "basic_math" else len(text) - 1 - start
            halves |= {len(text) - 1 - right} | ({right} if template != "basic_math" else set())
            used |= set(text[:-1]) - set("0123456789")
        assert halves == set(lengths)
        assert used == (set(operators) if lengths != [1] else set())


@pytest.mark.parametrize("values", [{}, {"low": 0, "high": 5}, {"low": 7, "high": 7}])
def test_no_comparator_of_basic_math_has_a_majority(values):
    dataset = Dataset.model_validate({"values": values})
    programs = sample(dataset, 1, "basic_math", "train", 0, 5_000).programs.to_strings()
    counts = Counter(text[-1] for text in programs)
    assert max(counts.values()) < 0.55 * len(programs)
