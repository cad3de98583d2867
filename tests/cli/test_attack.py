"""``cadmus attack``."""

import pytest
from click.testing import CliRunner

from cadmus.cli.main import cadmus
from cadmus.errors import InputError


def attack(*arguments: str) -> str:
    done = CliRunner().invoke(cadmus, ["attack", *arguments, "--programs=60", "--longest=1", "--rounds=0"])
    if done.exception:
        raise done.exception
    return done.stdout


def test_the_best_policies_of_a_question_are_printed() -> None:
    header, row = attack("equality_comparator").splitlines()
    assert header.split() == [
        "question",
        "tested",
        *["constant", "solved", "copy", "solved", "listed", "solved"],
    ]
    assert row.split() == ["equality_comparator", "60", "=", "100.0%", "=", "100.0%", "=", "100.0%"]


def test_an_unknown_question_is_an_error() -> None:
    with pytest.raises(InputError, match="no question 'equalty'; did you mean 'equality'"):
        attack("equalty")
