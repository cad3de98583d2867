"""basic_math, equality and less_greater."""

import pytest

from cadmus.config import Dataset
from cadmus.dataset.sampler import sample
from cadmus.evaluate.grading import second_expression
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
        left, right = reference.run(text[:prompt]).outputs
        assert (left.value, right.value) == (x, y)
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
        programs = sample(dataset, 1, template, "train", 0, 20 if lengths == [1] else 500)
        used, halves = set(), set()
        for text in programs.programs.to_strings():
            right = 1 if template == "basic_math" else len(text) - 1 - second_expression(text)
            halves |= {len(text) - 1 - right} | ({right} if template != "basic_math" else set())
            used |= set(text[:-1]) - set("0123456789")
        assert halves == set(lengths)
        assert used == (set(operators) if lengths != [1] else set())
