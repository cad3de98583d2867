"""Counterfactuals: pairs of prompts that differ in a variable of the VM."""

from typing import get_args

import pytest

from cadmus.config import Dataset
from cadmus.config.evaluation import Variable
from cadmus.dataset.splits import TEST, split_of
from cadmus.errors import InputError
from cadmus.evaluate.prompts.counterfactuals import VARIABLES, counterfactuals
from cadmus.programs import Programs
from cadmus.templates.answers import number_text
from cadmus.vm.reference import run

ANSWERS = {"first": "hybrid", "second": "hybrid", "top": "hybrid", "call": "hybrid"}


def value_after(prompt: str, token: int) -> list:
    return [value.value if hasattr(value, "value") else value for value in run(prompt[: token + 1]).outputs]


@pytest.mark.parametrize("variable", VARIABLES)
def test_the_variable_is_known_after_its_token_and_decides_the_answer(variable):
    table = counterfactuals(variable, 40, seed=1)
    assert len(table) == 40
    for row in table.iter_rows(named=True):
        values = {}
        for side in ("base", "source"):
            prompt, token, value = (row[f"{side}{part}"] for part in ("", "_token", "_value"))
            stack = value_after(prompt, token)
            known = {
                "second": lambda stack: stack[-2],
                "difference": lambda stack: stack[-2] - stack[-1],
                "length": lambda stack: len(stack[-1]),
            }.get(variable, lambda stack: stack[-1])(stack)
            assert known == value
            values[side] = value
            # The answer is right: some true program begins like that.
            if VARIABLES[variable].template != "basic_sequences":
                assert run(prompt + row[f"{side}_answer"]).true
        assert row["answer"] != row["base_answer"]
        if ANSWERS.get(variable) == "hybrid":
            assert row["answer"] != row["source_answer"]
        else:
            assert row["answer"] == row["source_answer"]
        if variable == "first":
            rest = row["base"][5:]
            assert run(row["source"][:5] + rest + row["answer"]).true


def test_the_programs_are_test_programs_and_the_same_for_every_model():
    table = counterfactuals("difference", 50)
    assert table.equals(counterfactuals("difference", 50))
    assert not table.equals(counterfactuals("difference", 50, seed=1))
    calls, sums = (counterfactuals(name, 30) for name in ("call", "aggregate"))
    whole = [*(table["base"] + table["base_answer"]), *(calls["base"] + calls["base_answer"])]
    whole += [f"{base}{number_text(value)}=" for base, value in sums.select("base", "base_value").iter_rows()]
    assert (split_of(Programs.from_strings(whole), Dataset().eval_fraction) == TEST).all()


@pytest.mark.parametrize(
    ("n", "seed", "name"), [(-1, 0, "n"), (2, -1, "seed"), (2.5, 0, "n"), (True, 0, "n")]
)
def test_counts_are_whole_numbers(n, seed, name):
    with pytest.raises(InputError, match=f"^{name}: must be a whole number of at least 0, got"):
        counterfactuals("top", n, seed)


def test_what_there_is_not_is_one_line():
    with pytest.raises(InputError, match="no variable 'diference'; did you mean 'difference'"):
        counterfactuals("diference", 5)
    narrow = Dataset(values={"low": 2, "high": 2})
    with pytest.raises(
        InputError, match=r"counterfactuals: 5 of difference are wanted, 0 were found; ask for"
    ):
        counterfactuals("difference", 5, dataset=narrow)


def test_the_config_knows_all_variables():
    assert list(get_args(Variable)) == list(VARIABLES)
