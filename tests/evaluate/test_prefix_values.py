r"""Values of prefixes, compared with all completions of a short length."""

from itertools import islice, product

import numpy as np
import pytest

from cadmus import Task, isa, prefix_values, tasks, verify
from cadmus.config import Dataset
from cadmus.evaluate.posterior import best_possible, credence
from cadmus.evaluate.questions import QUESTIONS
from cadmus.programs import Programs, join
from cadmus.templates.complete_algorithm import functions_of, kind_of
from cadmus.vm.compiled import are_true

SYMBOLS = sorted(isa.BY_SYMBOL.keys() - {isa.END})


def asked(question: str, n: int, split: str = "test") -> list[Task]:
    return list(islice(tasks(QUESTIONS[question].template, split, question=question, seed=3), n))


def solved(task: Task, completions: list[str], dataset: dict[str, int]) -> list[str]:
    """Return the completions that the grade accepts."""
    verdicts = verify([task] * len(completions), completions, dataset=dataset)
    return [text for text, verdict in zip(completions, verdicts, strict=True) if verdict.solved]


def numerals(longest: int) -> list[str]:
    """Return all written numbers of up to a length."""
    last = [digit + "+" for digit in "123456789"]
    texts = [*"0123456789Zt", *("t" + each for each in last)]
    steps = ["t*", *("t*" + each for each in last)]
    every = list(texts)
    while texts:
        texts = [text + step for text in texts for step in steps if len(text + step) <= longest]
        every += texts
    return [*every, *(text + "~" for text in every if len(text) < longest)]


def words(symbols: str, longest: int) -> list[str]:
    return ["".join(word) for length in range(longest + 1) for word in product(symbols, repeat=length)]


def pairs(texts: list[str], form: str, longest: int) -> list[str]:
    """Return a form with two of the texts, of up to a length together."""
    return [form.format(*both) for both in product(texts, repeat=2) if len("".join(both)) <= longest]


NUMBERS = numerals(7)
ELEMENTS = [text + label for text in NUMBERS for label in ("", "0:", "1:") if len(text + label) <= 7]
SHORT = [text for text in ELEMENTS if len(text) <= 5]
COMPARISONS = [number + end for number in NUMBERS for end in "=Y"]
EXPRESSIONS = [text + "=" for text in words("0123456789tZ+-*/%xn~", 3)]


@pytest.mark.parametrize(
    ("prompt", "reference", "question", "completions"),
    [
        ("34+5", ">", "less_greater", words("<>=", 3)),
        ("29+t1+", "=", "equality_comparator", words("<>=", 3)),
        ("u7b8b$", "t5+=", "basic_sequences", COMPARISONS),
        ("u5b3bN", "3=", "basic_sequences", COMPARISONS),
        ("u0bX", "0=", "basic_sequences", COMPARISONS),
        ("uZbX", "1~=", "basic_sequences", COMPARISONS),
        ("u2bLtt*+~", "tt*1+~=", "basic_sequences", COMPARISONS),
        ("u52:b0@", "5=", "basic_sequences", COMPARISONS),
        ("u71:bV", "u71:bY", "advanced_sequences", [f"u{text}bY" for text in ELEMENTS]),
        ("u15+b", "u6bY", "advanced_sequences", [f"u{text}bY" for text in ELEMENTS]),
        ("u3bu2bc", "u3b2bY", "advanced_sequences", pairs(SHORT, "u{}b{}bY", 6)),
        (r"\1>;u2bf", "", "apply_labels", words("!1=Y", 3)),
        (r"\L2>;u0bf", "!", "apply_labels", words("!1=Y", 3)),
        ("29+", "65+=", "equality", EXPRESSIONS),
    ],
)
def test_a_prefix_is_worth_1_if_and_only_if_a_right_completion_begins_with_it(
    prompt, reference, question, completions
):
    task = Task(prompt, reference, question, "test")
    # All that have the form of an answer and are short enough, so that no other is right.
    longest = max(map(len, completions))
    dataset = {"max_length": len(prompt) + longest}
    right = solved(task, completions, dataset)
    assert reference in right
    solvable = {text[:length] for text in right for length in range(len(text) + 1)}
    rng = np.random.default_rng(0)
    others = [completions[row] for row in rng.integers(len(completions), size=60)]
    texts = [*right[:30], *others]
    for text in texts:
        values = prefix_values(task, text, dataset=dataset)
        expected = [text[:length] in solvable for length in range(len(text) + 1)]
        assert values.solvable.tolist() == [*expected, text in right], text
        assert values.probability.tolist() == values.solvable.tolist()


@pytest.mark.parametrize("question", QUESTIONS)
def test_values_are_1_along_right_completions_and_never_rise(question):
    found = asked(question, 20)
    references = [task.reference for task in found]
    assert all(prefix_values(*each).solvable.all() for each in zip(found, references, strict=True))
    assert prefix_values(found[0], references[0] + ".").solvable.tolist() == [True] * (len(references[0]) + 2)
    others = [*references[1:], references[0]]
    for task, text in zip(found, others, strict=True):
        values = prefix_values(task, text)
        assert len(values.solvable) == len(values.probability) == len(text) + 2
        assert values.solvable[0]
        assert values.solvable[-1] == verify(task, text).solved
        assert (np.diff(values.solvable.astype(int)) <= 0).all()
        assert (np.diff(values.probability) <= 0).all()


@pytest.mark.parametrize("question", ["random", "subroutines_definition"])
def test_what_two_instructions_solve_is_worth_1(question):
    for task in asked(question, 3):
        # A change in its middle, so that the reference itself is no continuation.
        middle = len(task.reference) // 2
        for prefix in (task.reference[:middle] + "1", task.reference[:middle] + "E"):
            right = solved(task, [prefix + word for word in words("".join(SYMBOLS), 2)], {})
            solvable = prefix_values(task, prefix).solvable[-2]
            assert solvable >= bool(right)
            if question == "random":
                assert solvable == bool(right)


def test_an_induction_is_worth_the_probability_of_its_best_continuation():
    for task in asked("complete_algorithm", 4):
        spellings = functions_of(kind_of(task.prompt)).spellings
        fits = are_true(join(task.prompt.encode(), Programs.from_strings(spellings)))
        definitions = [spellings[row] for row in np.flatnonzero(fits)]
        probability = credence([task.prompt] * len(definitions), definitions, Dataset())
        computed = dict(zip(definitions, probability, strict=True))
        right = {*solved(task, definitions, {})}
        for text in (task.reference, definitions[0], definitions[-1]):
            values = prefix_values(task, text)
            prefixes = [text[:length] for length in range(len(text) + 1)]
            expected = [
                max(p for each, p in computed.items() if each.startswith(start)) for start in prefixes
            ]
            assert values.probability.tolist() == pytest.approx([*expected, computed[text]])
            written = [any(each.startswith(start) for each in right) for start in prefixes]
            assert values.solvable.tolist() == [*written, text in right]
        best = best_possible(Programs.from_strings([task.prompt]), Dataset(), "test")
        assert values.probability[0] == pytest.approx(best[0])


def test_a_finished_definition_of_another_spelling_is_graded():
    task = Task("2f4=3f6=", r"\2*;", "complete_algorithm", "test")
    right = prefix_values(task, r"\E+0+;")
    assert right.solvable.all()
    assert right.probability[-1] == pytest.approx(right.probability[0])
    assert prefix_values(task, r"\E+0+7").solvable.tolist() == [True] * 6 + [False] * 2
    # After a stray `;`, too.
    assert prefix_values(task, r";\2*;").solvable.all()


@pytest.mark.parametrize(
    ("completion", "expected"),
    [
        ("5q", [True, True, False, False]),
        ("5=.1", [True, True, True, False, False, False]),
        ("é", [True, False, False]),
        # After 27 zeros there is no room for another and `5+=`.
        ("0" + "t*" * 40, [True] * 56 + [False] * 27),
        ("0" + "t*" * 27 + "5+=", [True] * 60),
    ],
)
def test_text_that_cannot_be_executed_is_worth_nothing(completion, expected):
    task = Task("41+", "5=", "basic_sequences", "test")
    values = prefix_values(task, completion, dataset={"max_length": 62})
    assert values.solvable.tolist() == expected


@pytest.mark.parametrize(
    ("prompt", "completion", "question"),
    [("34", ">", "less_greater"), ("12+3=", r"\0;", "complete_algorithm"), ("34q", ">", "less_greater")],
)
def test_a_bad_task_is_worth_nothing(prompt, completion, question):
    task = Task(prompt, completion, question, "test")
    assert not prefix_values(task, completion).solvable.any()
