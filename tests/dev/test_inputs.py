"""Damaged inputs are valid or refused in one line, and the tool finds what is not."""

import pytest

from dev.inputs import Ended, find_problems
from tests.commands import python

REFUSED = "cadmus: error: config.yaml: train.steps: must be at least 1, got 0\n"


def problems(**changed):
    return find_problems("config.yaml", Ended(2, "", REFUSED, set())._replace(**changed))


def test_damaged_inputs_are_valid_or_refused_in_one_line():
    done = python("-m", "dev.inputs", "--mutants=30")
    assert done.returncode == 0, done.stdout[-5_000:] + done.stderr[-2_000:]
    assert "refused" in done.stdout


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"stderr": "Traceback (most recent call last):\nKeyError: 'x'\n"}, "traceback: KeyError: 'x'"),
        ({"status": 1}, "exit code 1"),
        ({"stderr": "warning\n" + REFUSED}, "does not print one line"),
        ({"stderr": "cadmus: error: train.steps: must be at least 1\n"}, "does not name config.yaml"),
        ({"stderr": REFUSED.replace("got", "\x1b")}, "prints control characters"),
        ({"changed": {("out.parquet", "1")}}, "changed out.parquet"),
        ({"status": 0, "changed": {(".tmp-out", "1")}}, "changed .tmp-out"),
    ],
)
def test_a_broken_promise_is_found(changed, problem):
    assert problems() == []
    assert problem in problems(**changed)[0]
