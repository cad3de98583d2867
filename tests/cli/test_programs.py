"""``cadmus run`` and ``cadmus isa``."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cadmus import isa
from tests.checkout import ROOT
from tests.commands import invoke, refused

MAIN = [sys.executable, "-m", "cadmus"]


def printed(*words: str, stdin: str | bytes = "") -> str:
    return invoke(*words, stdin=stdin).stdout


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["34+7=."], "1\ntrue\n"),
        (["34+8="], "0\nfalse\n"),
        (["1E73:u1b22:b10/"], "1 1 7:3 [1 2:2] NAN\nfalse\n"),
        ([""], "\nfalse\n"),
        (["--", "-12+"], "NAN 3\nfalse\n"),
        (["--", "-h"], "NAN\nfalse\n"),
        (["\t- 1 2 + "], "NAN 3\nfalse\n"),
    ],
)
def test_run_prints_outputs_and_result(arguments, shown) -> None:
    assert printed("run", *arguments) == shown


def test_run_json_prints_one_object() -> None:
    assert json.loads(printed("run", "--json", "73:u1b22:b510/")) == {
        "program": "73:u1b22:b510/",
        "outputs": [{"value": 7, "decoration": 3}, [1, {"value": 2, "decoration": 2}], 5, None],
        "true": False,
    }


def test_run_trace_shows_the_stack_after_each_instruction() -> None:
    assert [line.split(maxsplit=1) for line in printed("run", "--trace", r"\E*;4Im_").splitlines()] == [
        ["instruction", "stack"],
        ["4", "4"],
        ["I", "[0 1 2 3]"],
        ["m", "[0 1 4 9]"],
        ["_"],
        ["false"],
    ]


def test_calls_show_a_trace_with_the_instructions_inside_calls() -> None:
    shown = printed("run", "--calls", r"3f\'E2>R;")
    assert shown.splitlines()[:3] == ["instruction  stack", "3            3", "  '            4"]
    assert printed("run", "--trace", "--calls", r"3f\'E2>R;") == shown


def test_run_reads_a_program_from_each_line() -> None:
    programs = b"34+ 7=\r\n\n34+8=\nu"
    assert printed("run", "-", stdin=programs) == "true\nfalse\nfalse\ntrue\n"
    assert [json.loads(line) for line in printed("run", "--json", "-", stdin=programs).splitlines()] == [
        {"program": "34+7=", "outputs": [1], "true": True},
        {"program": "", "outputs": [], "true": False},
        {"program": "34+8=", "outputs": [0], "true": False},
        {"program": "u", "outputs": [[]], "true": True},
    ]


def test_run_answers_each_line_before_the_next_arrives_and_before_a_bad_one() -> None:
    with subprocess.Popen(
        [*MAIN, "run", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        bufsize=1,
        cwd=ROOT,
    ) as process:
        for program, result in (("12<", "true\n"), ("21<", "false\n")):
            process.stdin.write(f"{program}\n")
            assert process.stdout.readline() == result
        process.stdin.write("1\n12q\n1\n")
        process.stdin.close()
        assert process.stdout.read() == "true\n"
        assert process.stderr.read().startswith(
            "cadmus: error: line 4: unknown symbol 'q' at position 3 of the program '12q';"
        )
    assert process.returncode == 2


@pytest.mark.parametrize(
    ("arguments", "stdin", "message"),
    [
        (["run", "3q4"], b"", "unknown symbol 'q' at position 2"),
        (["run", "1 2 q"], b"", "unknown symbol 'q' at position 3 of the program '12q'"),
        (["run", "1.é"], b"", "unknown symbol 'é' at position 3"),
        (["run", "-"], b"1\n\xff\n", "line 2: unknown symbol '\ufffd' at position 1"),
        (["run", "--trace", "-"], b"1", "--trace and --calls show one program"),
        (["run", "--trace", "--json", "1"], b"", "--trace and --calls show one program"),
    ],
)
def test_bad_input_is_an_error(arguments, stdin, message) -> None:
    assert message in refused(*arguments, stdin=stdin)


def test_run_is_silent_if_its_reader_stops() -> None:
    shell = f"printf '1\\n2\\n' | {' '.join(MAIN)} run - | true"
    done = subprocess.run(["sh", "-c", shell], cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_isa_prints_the_table() -> None:
    lines = printed("isa").splitlines()
    assert lines[0].split() == ["symbol", "effect", "meaning", "alternate"]
    assert [line[0] for line in lines[1:]] == list(isa.BY_SYMBOL)
    assert next(line for line in lines if line.startswith("x")).endswith("L")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_one_line() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run([*MAIN, "run", "1"], stdout=full, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    assert done.returncode == 2
    assert done.stderr == "cadmus: error: standard output: No space left on device\n"
