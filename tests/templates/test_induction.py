"""Functions from examples: reading them, and votes."""

import numpy as np
import pytest

from cadmus.config import Dataset
from cadmus.errors import InputError
from cadmus.model import inference
from cadmus.programs import Programs
from cadmus.templates.induction import prompt_of, read_examples, votes


class Fixed:
    """A model that writes given completions in turn, the first one if it is greedy."""

    max_length = 63

    def __init__(self, *texts):
        self.texts = texts

    def complete(self, prompts, *_, samples=1, temperature=0.0, **__):
        number = len(prompts) * samples
        texts = [self.texts[k % len(self.texts) if temperature else 0] for k in range(number)]
        return Programs.from_strings(texts), np.ones(number, np.bool_)

    induce = inference.Cadmus.induce


MODEL = Fixed(r"\L1+;", r"\$;", r"\0+$;", r"\L2+;", r"\$;", r"\N5+;", "9")
EXAMPLES = ["[1, 2, 3] -> 6", "[4] -> 4", "[] -> 0"]


@pytest.mark.parametrize(
    ("examples", "prompt"),
    [
        (["[1, 2, 3] -> 6", " [4]->  40"], "u1b2b3bf6=u4bf4t*="),
        (["[1,2,3] -> 1", "[2] -> 0", "[] -> 0"], "u1b2b3bfu2bf!uf!"),
        (["[-1, 10] -> [10, -1]", "[3] -> [3]"], "uZbtbfutb1~bYu3bfu3bY"),
        (["3 -> 7", "-1 -> -2"], "3f7=Zf2~="),
        (["3, 4 -> 7", "1,0 -> 1"], "34F7=10F1="),
        (["[1, 2, 3], 4 -> 10", "[5], 0 -> 5"], "u1b2b3b4lt=u5b0l5="),
    ],
)
def test_examples_are_written_as_the_template_does(examples, prompt):
    assert prompt_of(read_examples(examples)) == prompt


@pytest.mark.parametrize(
    ("examples", "message"),
    [
        ([], "none; give at least one"),
        (["1 2 3 -> 6"], "must be ARGUMENTS -> RESULT, numbers or lists"),
        (["[1, 2, 3]"], "must be ARGUMENTS -> RESULT"),
        (["1 -> 2 -> 3"], "must be ARGUMENTS -> RESULT"),
        (["1, 2, 3 -> 6"], "must have one or two arguments and one result"),
        (["-> 1"], "must have one or two arguments and one result"),
        (["1 -> "], "must have one or two arguments and one result"),
        (["[1, 2 -> 3"], "must be ARGUMENTS -> RESULT"),
        (["²  -> 1"], "must be ARGUMENTS -> RESULT"),
        (["true -> 1"], "must be ARGUMENTS -> RESULT"),
        (["[1.5] -> 1"], "must be ARGUMENTS -> RESULT"),
        (["[" * 9999 + " -> 1"], "must be ARGUMENTS -> RESULT"),
        (["3 -> 12345"], "results must be from -9999 to 9999"),
        (["25 -> 1"], "arguments must be from -1 to 10"),
        (["[1, 2] -> 3", "[1,  2] -> 4"], "contradict each other"),
        (["[1, 2] -> 3", "1, 2 -> 3"], "differ in their number of arguments"),
        (["[1, 2] -> 3", "1 -> 3"], "differ in their number of arguments, or in what is a number"),
        (["3 -> [1, 2]"], "only a function of one sequence gives a sequence"),
        (["1, [2, 3] -> 4"], "a second argument must be a number"),
        ([f"[{', '.join('0' * 17)}] -> 1"], "at most 16 elements"),
        (
            [f"[{k}, 1, 2, 3, 4, 5, 6] -> {k}" for k in range(5)],
            "are 90 instructions, and programs .* at most 63",
        ),
    ],
)
def test_bad_examples_are_one_line(examples, message):
    with pytest.raises(InputError, match=message) as error:
        MODEL.induce(examples)
    assert "\n" not in str(error.value)


def test_what_is_computed_most_often_wins():
    assert MODEL.induce(EXAMPLES, 7) == [(r"\$;", 3)]
    assert MODEL.induce(EXAMPLES, 1) == []
    # Both the sum and one more than the length are 2.
    assert MODEL.induce(["[2] -> 2", "[0, 2] -> 2"], 7) == [(r"\$;", 3)]
    assert MODEL.induce(["[2] -> 2"], 7)[0] == (r"\$;", 3)


def test_votes_do_not_count_what_did_not_end():
    completions = Programs.from_strings([r"\$;", r"\$;"])
    found = votes("u1b2bf3=", completions, np.array([True, False]), Dataset())
    assert [*found.values()] == [[r"\$;"]]
