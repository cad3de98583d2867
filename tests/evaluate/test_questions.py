"""Completions that solve each question: references, mutated references, cases by hand and anything at all."""

import re
from functools import cache

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cadmus import isa
from cadmus.config import TEMPLATE_OF, TEMPLATES
from cadmus.evaluate.criteria import DEFINITION
from cadmus.evaluate.grading import TaskBatch, grade
from cadmus.evaluate.questions import QUESTIONS, questions_of, subjects_of
from cadmus.programs import Programs
from cadmus.templates.behavior import FRESH_INPUTS, fresh_calls
from cadmus.vm.compiled import outputs
from cadmus.vm.reference import Number, run
from tests.evaluate.samples import DATASET, is_verified, tasks_of_template

COUNT = 20_000
SYMBOLS = "".join(isa.BY_SYMBOL)


def graded(task: TaskBatch, completions: list[str], ended: bool = True) -> pl.DataFrame:
    answers = Programs.from_strings(completions), np.full(len(completions), ended)
    return grade([task], lambda _name, _prompts: answers, "policy", DATASET)


def references_of(task: TaskBatch) -> list[str]:
    return task.programs.suffixes(task.prompt_length).to_strings()


def mutated(completion: str, place: float, other: int) -> str:
    """Replace one token of a completion, its end included, by another; what follows an end is dropped."""
    text = completion + isa.END
    k = int(place * len(text))
    others = SYMBOLS.replace(text[k], "")
    return (text[:k] + others[other] + text[k + 1 :]).partition(isa.END)[0]


def same_answer(task: TaskBatch, row: int, completion: str) -> bool:
    """Tell from the reference VM whether a completion gives the answer of the reference."""
    program, length = task.programs.take(np.array([row])).to_strings()[0], int(task.prompt_length[row])
    prompt, reference = program[:length], program[length:]
    result = run(prompt + completion)
    if task.name == "complete_algorithm":
        given, found = (definitions(text) for text in (reference, completion))
        return run(prompt + given).outputs == run(prompt + found).outputs
    if task.question.solves is QUESTIONS["basic_math"].solves:
        return completion[:1] == reference[:1]
    if task.name == "random":
        return result.true and "_" not in completion
    return result.true and result.outputs == run(program).outputs


def definitions(text: str) -> str:
    return "".join(f"\\{body};" for body in re.findall(r"\\([^;]*);?", text))


@cache
def fresh_inputs() -> dict[str, list[str]]:
    return {name: calls.to_strings() for name, calls in fresh_calls(DATASET.model_dump_json()).items()}


def test_fresh_inputs_are_distinct_and_have_every_number() -> None:
    """A predicate of numbers may be true of a single one."""
    assert set(fresh_inputs()["calculate"]) == {f"{number}f" for number in "Z0123456789t"}
    others = {len(set(calls)) for name, calls in fresh_inputs().items() if name != "calculate"}
    assert others == {FRESH_INPUTS}


def kind_of_calls(prompt: str) -> str:
    """Name the calls of a prompt by what they leave."""
    symbol = re.search("[fFlmw]", prompt)[0]
    if symbol != "f":
        return {"F": "calculate with two", "l": "fold", "m": "map", "w": "filter"}[symbol]
    if isinstance(run(prompt.partition("f")[0]).outputs[-1], Number):
        return "calculate"
    return "change" if "Y" in prompt else "label or reduce"


@pytest.mark.parametrize("template", TEMPLATES)
def test_the_reference_is_always_solved(template: str) -> None:
    for task in tasks_of_template(template, COUNT):
        completions = graded(task, references_of(task))
        assert len(completions) > COUNT / 10
        for metric in ("solved", "exact", "next_token", "verified"):
            assert completions[metric].all(), (task.name, metric, completions.filter(~pl.col(metric))[0])
        assert completions["fits"].null_count() == (task.name != "complete_algorithm") * len(completions)
        assert completions["fits"].all()


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_mutated_reference_that_changes_the_answer_is_never_solved(template: str) -> None:
    for task in tasks_of_template(template, COUNT):
        rng = np.random.default_rng(len(task.name))
        places = rng.random(len(task.programs)).tolist()
        others = rng.integers(len(SYMBOLS) - 1, size=len(places)).tolist()
        texts = [mutated(*each) for each in zip(references_of(task), places, others, strict=True)]
        completions = graded(task, texts)
        rows = np.flatnonzero(completions["solved"])
        # One in two mutations at least changes the answer.
        assert len(rows) < len(texts) / 2, task.name
        wrong = [(row, texts[row]) for row in rows if not same_answer(task, row, texts[row])]
        assert not wrong, (task.name, task.programs.to_strings()[wrong[0][0]], wrong[0][1])
        if task.name == "complete_algorithm":
            assert_same_on_fresh_inputs(task, rows, [texts[row] for row in rows])


def assert_same_on_fresh_inputs(task: TaskBatch, rows: np.ndarray, texts: list[str]) -> None:
    prompts = task.prompts.take(rows).to_strings()
    references = task.programs.suffixes(task.prompt_length).take(rows).to_strings()
    ours, theirs = (
        outputs(
            Programs.from_strings(
                call + definitions(text)
                for prompt, text in zip(prompts, found, strict=True)
                for call in fresh_inputs()[kind_of_calls(prompt)]
            )
        )
        for found in (texts, references)
    )
    assert ours == theirs


def completed(name: str, prompt: str, reference: str, completion: str, ended: bool = True) -> tuple:
    """Grade one completion by hand; return whether it is solved, whether it fits, and whether verified."""
    programs = Programs.from_strings([prompt + reference])
    task = TaskBatch(name, QUESTIONS[name], programs, np.array([len(prompt)], np.int64))
    return graded(task, [completion], ended).select("solved", "fits", "verified").row(0)


EQUALITY = ("equality", "941-*", "55*2+=")
FIVE = ("equality", "23+", "05+=")
ELEMENT = ("basic_sequences", "u1b2b3b0@", "1=")
REVERSED = ("advanced_sequences", "u1b2bV", "u2b1bY")
DECORATED = ("apply_labels", r"\5>;u3b7bEm:", "u3b71:bY")
LABEL_1 = ("apply_labels", r"\L1>;u1b2b3bf", "")
LABEL_0 = ("apply_labels", r"\L1>;u1bf", "!")
CALL = ("subroutines_definition", "8f2=", r"\6-;")
DOUBLE = ("complete_algorithm", "2f4=3f6=1f2=", r"\2*;")
LONG = ("complete_algorithm", "u1b2b3bfu2b3bf!u1b2b3b4bf", r"\L2>;")
SUM = ("basic_math", "34+7", "=")
COMPARED = ("equality_comparator", "941-*55*2+", "=")
GREATER = ("less_greater", "83-2*45+1-", ">")
CALLED = ("subroutines", r"\41-*;9f55*2+", "=")
RANDOM = ("random", "10", "!")


@pytest.mark.parametrize(
    ("asked", "completion"),
    [
        (EQUALITY, "39*="),
        (EQUALITY, "t3*3-="),
        (FIVE, "41+="),
        (ELEMENT, "1Y"),
        (ELEMENT, "Z~="),
        (CALL, r"\4/"),
        (CALL, r"\2n;;"),
        (("subroutines_definition", "82F6=", "\\-;"), r"\x2-;"),
        (DOUBLE, r"\E+;"),
        (DOUBLE, r"\2*"),
        (LONG, r"\L3<!;"),
        (RANDOM, "1=!"),
        (("random", "t0-'0", "+"), "'"),
    ],
)
def test_an_answer_is_solved(asked: tuple[str, str, str], completion: str) -> None:
    solved, fits, verified = completed(*asked, completion)
    assert solved
    assert verified
    assert fits == (True if asked[0] == "complete_algorithm" else None)
    assert completed(*asked, completion, ended=False)[0] is False


@pytest.mark.parametrize(
    ("asked", "completion"),
    [
        # attacks.tsv has many more. Here, the value that the prompt leaves is true.
        (EQUALITY, ""),
        # A comparison with a sequence is true.
        (EQUALITY, "u="),
        (EQUALITY, "39*=1"),
        (EQUALITY, "39*Y"),
        (EQUALITY, "9>"),
        # Copies of three instructions.
        (FIVE, "23+="),
        (FIVE, "23+0+="),
        # One literal asks nothing: any other expression of its value is longer.
        (("equality", "5", "05+="), "41+="),
        (("equality", "5", "05+="), "5="),
        (SUM, "Y"),
        (ELEMENT, ""),
        (ELEMENT, "1=1="),
        # Arithmetic could repeat the query: `12+=` after `u1b2b$`.
        (ELEMENT, "32-="),
        (REVERSED, "u11+b1bY"),
        # [1 1], not 1.
        (REVERSED, "u2b1b="),
        (DECORATED, ""),
        (DECORATED, "u3b7bEm:Y"),
        (LABEL_1, "1="),
        (LABEL_0, "0="),
        # 8f is a sequence; its comparison is a sequence too.
        (CALL, r"\u;"),
        (CALL, r"\6-;1"),
        # The same for all arguments.
        (CALL, r"\2;"),
        (("subroutines_definition", "82F6=", "\\-;"), r"\6;"),
        # The first argument is lost.
        (("subroutines_definition", "82F6=", "\\-;"), r"\4+;"),
        # The text of the prompt, inlined.
        (CALL, r"\8-2+;"),
        (DOUBLE, r"4f8=\2*;"),
    ],
)
def test_a_true_program_without_the_answer_is_not_solved(
    asked: tuple[str, str, str], completion: str
) -> None:
    _, prompt, _ = asked
    assert run(prompt + completion).true
    assert completed(*asked, completion)[0] is False


@pytest.mark.parametrize(
    ("completion", "fits"),
    [
        # f gives a sequence, whose comparisons are true.
        (r"\u;", False),
        (r"\4;", False),
        ("", False),
        (r"4f9=\2*;", False),
        # The smaller of 2n and 9: right for 1, 2 and 3.
        (r"\2*9n;", True),
    ],
)
def test_a_function_fits_before_it_is_solved(completion: str, fits: bool) -> None:
    assert completed(*DOUBLE, completion)[:2] == (False, fits)


EXAMPLES = [SUM, EQUALITY, COMPARED, GREATER, CALLED, CALL, RANDOM, ELEMENT, REVERSED, DECORATED]
EXAMPLES += [LABEL_0, DOUBLE]


@given(
    st.lists(
        st.one_of(
            st.text(SYMBOLS, max_size=12),
            st.text("0123456789=Y!&fFR\\;", max_size=8),
            st.sampled_from([SYMBOLS, "", isa.END, ";", "\\", "\\;\\;"]),
        ),
        min_size=len(EXAMPLES),
        max_size=len(EXAMPLES),
    ),
    st.booleans(),
)
def test_no_completion_raises_and_only_verified_ones_are_solved(completions: list[str], ended: bool) -> None:
    for example, completion in zip(EXAMPLES, completions, strict=True):
        solved, fits, verified = completed(*example, completion, ended)
        assert verified >= solved
        assert verified <= ended
        assert fits is None or fits >= solved


def test_every_question_is_of_a_template_and_added_templates_ask_for_an_answer() -> None:
    declared = {name: question.template for name, question in QUESTIONS.items()}
    # Templates that somebody adds ask a question of their own name.
    assert declared | {name: name for name in TEMPLATE_OF.keys() - declared.keys()} == TEMPLATE_OF
    assert list(questions_of("equality")) == ["equality", "equality_comparator"]
    (added,) = questions_of("modular_sum").items()
    assert added[0] == added[1].template == "modular_sum"
    assert added[1].solves is QUESTIONS["basic_sequences"].solves


@pytest.mark.parametrize(
    ("name", "programs", "asked"),
    [
        # In either order, whatever the comparator.
        ("less_greater", ["12+34* <", "34*12+ >"], ["12+ 34*"] * 2),
        ("equality", ["33* 9=", "9 33*="], ["33* 9"] * 2),
        ("basic_sequences", ["u1b2b3b0@ 1=", "u1b2b3bL 3=", "3I$ 3="], ["u1b2b3b", "u1b2b3b", "3I"]),
        # The answer is a sequence as well.
        ("advanced_sequences", ["u1b2b3bE1>K u2b3bY", "u1bu2bc$ 3="], ["u1b2b3b", "u1b u2b"]),
        ("apply_labels", [r"\L1>;u1bf 0="], [r"\L1>;"]),
        ("subroutines", [r"\41-*;9f27 ="], [r"\41-*;"]),
        ("subroutines_definition", [r"\1+;8g2= \3-f;"], [r"\1+; \3-f;"]),
        ("complete_algorithm", [r"2f4=3f6= \2*;"], [r"\2*;"]),
        ("random", ["10 !"], ["10!"]),
    ],
)
def test_things_asked(name: str, programs: list[str], asked: list[str]) -> None:
    """A space ends the prompt."""
    lengths = np.array([program.index(" ") for program in programs])
    joined = Programs.from_strings(program.replace(" ", "") for program in programs)
    assert subjects_of(QUESTIONS[name], joined, lengths).to_list() == asked


def test_random_programs_are_cut_where_they_are_not_true_yet() -> None:
    (task,) = tasks_of_template("random", COUNT)
    programs = task.programs.to_strings()
    for program, length in list(zip(programs, task.prompt_length.tolist(), strict=True))[:500]:
        result = run(program[:length])
        assert not result.true
        assert None not in result.outputs
        assert 0 < length < len(program)
        assert is_verified(program[:length], program[length:])
        nearer = [
            cut
            for cut in range(1, len(program))
            if abs(2 * cut - len(program)) < abs(2 * length - len(program))
            and not (found := run(program[:cut])).true
            and None not in found.outputs
            and is_verified(program[:cut], program[cut:])
        ]
        # Prompts that leave something come first.
        assert not [cut for cut in nearer if run(program[:cut]).outputs or not result.outputs]
    empty = [not outputs_of for outputs_of in outputs(task.prompts)]
    assert 0 < sum(empty) <= len(empty) / 2


@given(st.text("\\;;1+f", max_size=9))
def test_one_definition_is_one_body_and_nothing_at_the_top_level(text):
    top, bodies = isa.split_definitions(text)
    assert bool(DEFINITION.fullmatch(text)) == (not top and len(bodies) == 1)
