"""Grading of completions by execution."""

import itertools
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cadmus import isa
from cadmus.errors import Defect
from cadmus.evaluate.grading import complete, second_expression
from cadmus.evaluate.results import accuracy_by
from cadmus.model.tokens import BYTE_OF_TOKEN
from cadmus.programs import Programs
from cadmus.templates.expressions import expressions


class Answers:
    """Model with a fixed completion per prompt; ``None`` never ends."""

    def __init__(self, answers: dict[str, str | None]) -> None:
        self.answers = answers

    def complete(self, prompts: Programs, max_length: int) -> tuple[Programs, np.ndarray]:
        texts = [self.answers[prompt] for prompt in prompts.to_strings()]
        ended = np.array([text is not None for text in texts])
        return Programs.from_strings(text or "" for text in texts), ended

    def next_logits(self, prompts: Programs) -> np.ndarray:
        texts = [(self.answers[prompt] or "") + isa.END for prompt in prompts.to_strings()]
        return np.eye(isa.VOCABULARY_SIZE, dtype=np.float32)[[isa.TOKEN_ID[text[0]] for text in texts]]


def table_of(template: str, *programs: str, prompt_length: int | list[int]) -> SimpleNamespace:
    return SimpleNamespace(
        programs=Programs.from_strings(programs),
        template=np.array([template] * len(programs), object),
        prompt_length=np.broadcast_to(np.array(prompt_length, np.int64), len(programs)),
    )


def counts(completions: pl.DataFrame, template: str) -> dict[str, int]:
    rows = accuracy_by(completions, "template").filter(template=template)
    return dict(rows.select("metric", "correct").iter_rows())


def test_accuracy_is_one_minus_the_error_rate() -> None:
    rng = np.random.default_rng(0)
    pairs = list(itertools.islice(itertools.product("0123456789", "123456789"), 60))
    programs = [f"{a}{b}+{b}>" if a != "0" else f"0{b}+{b}=" for a, b in pairs]
    wrong = set(rng.choice(60, 21, replace=False).tolist())
    answers = {program[:4]: "<" if i in wrong else program[4:] for i, program in enumerate(programs)}
    completions = complete(Answers(answers), table_of("basic_math", *programs, prompt_length=4), 63)
    assert counts(completions, "basic_math") == {"verified": 39, "exact": 39, "next_token": 39}
    results = accuracy_by(completions, "template")
    assert results["programs"].to_list() == [60] * 3
    assert results["accuracy"].to_list() == [0.65] * 3
    assert results["low"][0] < 0.65 < results["high"][0]


def test_metrics_differ_by_completion() -> None:
    programs = {
        "34+7=": ("34+7", "="),  # the original
        "34+6>": ("34+6", "=!"),  # another true program
        "34+5>": ("34+5", ">!!"),  # true, and starts like the original
        "34+4>": ("34+4", "<"),  # false
        "34+3>": ("34+3", "__1"),  # true by dropping
        "34+2>": ("34+2", None),  # true so far, but never ends
        "34+1>": ("34+1", ""),  # ends at once: 7 and 1 are both true
    }
    table = table_of("basic_math", *programs, prompt_length=4)
    completions = complete(Answers(dict(programs.values())), table, 63)
    assert counts(completions, "basic_math") == {"verified": 4, "exact": 1, "next_token": 2}
    assert completions["program"].to_list() == list(programs)
    assert completions["completion"].to_list() == [answer or "" for _, answer in programs.values()]
    assert completions["ended"].to_list() == [answer is not None for _, answer in programs.values()]
    assert completions["uses_drop"].to_list() == [answer == "__1" for _, answer in programs.values()]
    assert completions["verified_equality"].null_count() == len(programs)


def test_the_next_token_may_be_the_end() -> None:
    programs = ("\\L1>;u1b2bf", "\\L1>;u1bf!")
    table = table_of("apply_labels", *programs, prompt_length=[11, 9])
    right = complete(Answers({programs[0]: "", "\\L1>;u1bf": "!"}), table, 63)
    assert counts(right, "apply_labels") == {"verified": 2, "exact": 2, "next_token": 2}
    swapped = complete(Answers({programs[0]: "!", "\\L1>;u1bf": ""}), table, 63)
    assert counts(swapped, "apply_labels") == {"verified": 0, "exact": 0, "next_token": 0}


def test_a_limit_takes_the_first_programs_of_each_template() -> None:
    table = table_of("basic_math", "34+7=", "34+8<", prompt_length=4)
    results = complete(Answers({"34+7": "="}), table, 63, limit=1)
    assert counts(results, "basic_math") == {"verified": 1, "exact": 1, "next_token": 1}


def test_equality_is_solved_from_after_the_first_expression() -> None:
    program = "941-*55*2+="
    table = table_of("equality", program, prompt_length=10)
    answers = {program[:10]: "=", program[:5]: "39*="}
    results = complete(Answers(answers), table, 63)
    assert counts(results, "equality") == {"verified": 1, "exact": 1, "next_token": 1}
    assert counts(results, "equality_solve") == {
        "verified": 1,
        "verified_equality": 1,
        "exact": 0,
        "next_token": 0,
    }
    # Another true comparison is not an equality.
    results = complete(Answers({**answers, program[:5]: "9>"}), table, 63)
    solve = counts(results, "equality_solve")
    assert (solve["verified"], solve["verified_equality"]) == (1, 0)


@given(st.lists(st.tuples(st.sampled_from([1, 3, 5]), st.integers(0, 10**6)), min_size=2, max_size=2))
def test_the_second_expression_is_found(drawn: list[tuple[int, int]]) -> None:
    tables = [expressions(length).programs for length, _ in drawn]
    first, second = (
        table.take(np.array([k % len(table)])).to_strings()[0]
        for table, (_, k) in zip(tables, drawn, strict=True)
    )
    assert second_expression(f"{first}{second}=") == len(first)


def test_the_second_expression_may_use_any_instruction() -> None:
    assert second_expression("34+4E_3+=") == 3
    assert second_expression("7u3b1b$4-=") == 1
    with pytest.raises(Defect, match="does not end in an expression"):
        second_expression("+=")


def test_tokens_and_bytes_agree() -> None:
    assert BYTE_OF_TOKEN.tobytes().decode("ascii") == "".join(row.symbol for row in isa.INSTRUCTIONS)
