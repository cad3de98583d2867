import itertools
from itertools import islice

import pytest

from cadmus import Task, tasks, verify
from cadmus.config import load_config
from cadmus.errors import InputError
from cadmus.evaluate.prompts.comparisons import grid_programs
from cadmus.evaluate.prompts.language_models import (
    ALPHABETS,
    COMPARISONS,
    EXAMPLES,
    SYMBOLS,
    UNREADABLE,
    answer_text,
    completion_in,
    prompt,
    question_text,
    read_answer,
    translate,
)
from cadmus.evaluate.questions import QUESTIONS
from cadmus.vm import reference
from tests.checkout import ROOT
from tests.evaluate.solver import errs, read_prompt, solve
from tests.test_isa import TABLE_2


def test_symbols_match_the_papers_table():
    assert SYMBOLS["alternate"] == TABLE_2
    assert SYMBOLS["normal"] == {symbol: symbol for symbol in TABLE_2}
    # Letters are new to all; in the permuted alphabet the same symbols have other meanings.
    assert all(symbol.isalpha() for meant, symbol in SYMBOLS["letters"].items() if meant != ".")
    permuted = SYMBOLS["permuted"]
    assert sorted(permuted.values()) == sorted(TABLE_2)
    assert [meant for meant, symbol in permuted.items() if meant == symbol] == ["."]
    assert not {permuted[comparator] for comparator in "<=>"} & set("<=>")


@pytest.mark.parametrize("symbols", SYMBOLS)
def test_prompt_is_sufficient_and_does_not_leak_the_answer(symbols):
    _, _, programs, _ = grid_programs(load_config(ROOT / "tests/tiny.yaml"))
    beginnings = set()
    for program in programs.to_strings()[::40]:
        text = prompt(program[:-1], symbols)
        meant, asked = read_prompt(text)
        assert asked == translate(program[:-1], symbols)
        assert (meant[solve(text)] == program[-1]) != errs(text)
        beginnings.add(text.removesuffix(f"{asked}\nAnswer:"))
    assert len(beginnings) == 1


def test_examples_are_true_and_cover_each_comparator():
    assert all(reference.run(example).true for example in EXAMPLES)
    assert sorted(example[-1] for example in EXAMPLES) == sorted("<=>")


FORMS = (
    *("{}", " {}\n", "`{}`", "**{}**", '"{}"', "```\n{}\n```", "```text\n{}\n```", "${}$", r"\({}\)"),
    *("Answer:{}", "Answer: {}", "**Answer:** `{}`", "The answer is {}", "**Final answer: {}**"),
    *(r"\boxed{{{}}}", r"$\boxed{{\text{{{}}}}}$"),
)


@pytest.mark.parametrize("symbols", SYMBOLS)
def test_answer_is_exactly_one_comparator_in_any_form(symbols):
    for comparator, form in itertools.product("<>=", FORMS):
        assert read_answer(form.format(translate(comparator, symbols)), symbols) == comparator, form
    for form in FORMS:
        assert read_answer(form.format(""), symbols) is None, "a form alone is not a symbol"
        assert read_answer(form.format("!"), symbols) is None
    other = "alternate" if symbols == "normal" else "normal"
    less = translate("<", symbols)
    for text in ("", f"{less}.", f"{less}{less}", f"a {less} b", translate("<", other), "**", "I think: !"):
        assert read_answer(text, symbols) is None


def test_a_model_that_repeats_itself_has_no_answer():
    for text in ("`", "$", "**", "Answer: ", "\\boxed{"):
        assert read_answer(text * 5_000, "alternate") is None


@pytest.mark.parametrize("alphabet", ALPHABETS)
@pytest.mark.parametrize("question", COMPARISONS)
def test_tasks_in_every_alphabet(question, alphabet):
    dataset = {
        "templates": {name: {"expression_lengths": [1, 3, 5, 7]} for name in ("basic_math", "equality")}
    }
    for task in islice(tasks(QUESTIONS[question].template, question=question, dataset=dataset), 50):
        text = question_text(task.prompt, question, alphabet)
        assert text == (task.prompt if alphabet == "program" else prompt(task.prompt, alphabet))
        assert completion_in(f" {answer_text(task.reference, alphabet)}\n", alphabet) == task.reference


def test_other_alphabets_and_answers():
    with pytest.raises(InputError, match="no alphabet 'words'; there are program, normal, alternate"):
        question_text("34+", "less_greater", "words")
    with pytest.raises(InputError, match="random: has no prompt in alternate symbols; ask basic_math, "):
        question_text("34+", "random", "alternate")
    assert completion_in("The answer is <", "normal") == "<"
    assert completion_in("It is <", "normal") == UNREADABLE
    assert not verify(Task("34+7", "=", "equality_comparator"), UNREADABLE).verified
    assert completion_in("55*2+=", "program") == "55*2+="
    assert {completion_in(text, alphabet) for text in (None, 3, []) for alphabet in ALPHABETS} == {None}
