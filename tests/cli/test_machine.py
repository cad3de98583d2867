"""``cadmus run`` and ``cadmus isa``, each as a process."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from cadmus import isa
from cadmus.cli.main import cadmus as command_line


def cadmus(*arguments: str, stdin: str | bytes = "") -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-c", "from cadmus.cli.main import main; main()", *arguments],
        input=stdin.encode() if isinstance(stdin, str) else stdin,
        capture_output=True,
    )
    return subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode("utf-8"), done.stderr.decode("utf-8")
    )


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        (["34+7=."], "1\ntrue\n"),
        (["34+8="], "0\nfalse\n"),
        (["1E73:u1b22:b10/"], "1 1 7:3 [1 2:2] NAN\nfalse\n"),
        ([""], "\nfalse\n"),
        (["-12+"], "NAN 3\nfalse\n"),
        (["--", "-12+"], "NAN 3\nfalse\n"),
        (["-+h"], "NAN\nfalse\n"),
        (["--", "-h"], "NAN\nfalse\n"),
        (["--", "--"], "NAN\nfalse\n"),
        (["3 4 + 7 ="], "1\ntrue\n"),
        (["\t- 1 2 + "], "NAN 3\nfalse\n"),
    ],
)
def test_run_prints_outputs_and_verdict(arguments: list[str], printed: str) -> None:
    done = cadmus("run", *arguments)
    assert (done.returncode, done.stdout, done.stderr) == (0, printed, "")


def test_run_json_prints_one_object() -> None:
    done = cadmus("run", "--json", "73:u1b22:b510/")
    assert done.returncode == 0
    assert json.loads(done.stdout) == {
        "program": "73:u1b22:b510/",
        "outputs": [{"value": 7, "decoration": 3}, [1, {"value": 2, "decoration": 2}], 5, None],
        "true": False,
    }


def test_run_trace_shows_the_stack_after_each_instruction() -> None:
    done = cadmus("run", "--trace", r"\E*;4Im_")
    assert done.returncode == 0
    assert [line.split(maxsplit=1) for line in done.stdout.splitlines()] == [
        ["instruction", "stack"],
        ["4", "4"],
        ["I", "[0 1 2 3]"],
        ["m", "[0 1 4 9]"],
        ["_"],
        ["false"],
    ]


def test_calls_show_a_trace_with_the_instructions_inside_calls() -> None:
    lines = cadmus("run", "--calls", r"3f\'E2>R;").stdout.splitlines()
    assert lines[:3] == ["instruction  stack", "3            3", "  '            4"]
    assert cadmus("run", "--trace", "--calls", r"3f\'E2>R;").stdout.splitlines() == lines


def test_run_reads_a_program_from_each_line() -> None:
    programs = b"34+ 7=\r\n\n34+8=\nu"
    done = cadmus("run", "-", stdin=programs)
    assert (done.returncode, done.stdout) == (0, "true\nfalse\nfalse\ntrue\n")
    done = cadmus("run", "--json", "-", stdin=programs)
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"program": "34+7=", "outputs": [1], "true": True},
        {"program": "", "outputs": [], "true": False},
        {"program": "34+8=", "outputs": [0], "true": False},
        {"program": "u", "outputs": [[]], "true": True},
    ]


def test_run_answers_each_line_before_the_next_arrives() -> None:
    command = [sys.executable, "-c", "from cadmus.cli.main import main; main()", "run", "--json", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        for program, true in (("12<", True), ("21<", False)):
            process.stdin.write(program + "\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["true"] is true
        process.stdin.close()
        assert process.stdout.read() == ""
    assert process.returncode == 0


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_run_prints_the_lines_before_a_bad_one(form: list[str]) -> None:
    done = cadmus("run", *form, "-", stdin="34+7=\n12q\n1\n")
    assert done.returncode == 2
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr.startswith(
        "cadmus: error: line 2: unknown symbol 'q' at position 3 of the program '12q';"
    )
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "stdin", "message"),
    [
        (["run", "3q4"], b"", "unknown symbol 'q' at position 2"),
        (["run", "1 2 q"], b"", "unknown symbol 'q' at position 3 of the program '12q'"),
        (["run", "1.é"], b"", "unknown symbol 'é' at position 3"),
        (["run", "--json", "3q4"], b"", "unknown symbol 'q' at position 2"),
        (["run", "--trace", "3q4"], b"", "unknown symbol 'q' at position 2"),
        (["run", "-"], b"1\n\xff\n", "line 2: unknown symbol '\ufffd' at position 1"),
        (["run", "--trace", "-"], b"1", "--trace shows one program"),
        (["run", "--trace", "--json", "1"], b"", "--trace shows one program"),
        (["run", "--calls", "-"], b"1", "--calls shows one program"),
        (["run"], b"", "Missing argument 'PROGRAM'"),
        (["run", "1", "2"], b"", "1 2: PROGRAM is one argument; quote it"),
        (["isa", "--yaml"], b"", "no such option --yaml"),
        (["isa", "eqaul"], b"", "no instruction 'eqaul'; did you mean 'equal'?"),
        (["isa", "q"], b"", "no instruction 'q'; `cadmus isa` lists all"),
        (["isa", "=", "--markdown"], b"", "--markdown prints the whole manual"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments, stdin, message) -> None:
    done = cadmus(*arguments, stdin=stdin)
    assert done.returncode == 2
    assert done.stderr.startswith("cadmus: error: ")
    assert done.stderr.count("\n") == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_run_is_silent_if_its_reader_stops() -> None:
    command = [sys.executable, "-c", "from cadmus.cli.main import main; main()", "run", "-"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        process.stdout.close()
        process.stdin.write("1\n2\n")
        process.stdin.close()
        assert process.stderr.read() == ""


@pytest.mark.parametrize("help_option", ["-h", "--help"])
def test_run_help_has_examples(help_option: str) -> None:
    done = cadmus("run", help_option)
    assert done.returncode == 0
    assert r"cadmus run --trace '\E*;4Im'" in done.stdout
    assert "cadmus run '-12+'" in " ".join(done.stdout.split())


def test_isa_prints_the_table() -> None:
    lines = cadmus("isa").stdout.splitlines()
    assert lines[0].split() == ["symbol", "effect", "meaning", "alternate"]
    assert [line[0] for line in lines[1:]] == list(isa.BY_SYMBOL)
    assert next(line for line in lines if line.startswith("x")).endswith("L")


@pytest.mark.parametrize("given", ["-", "subtract"])
def test_isa_explains_an_instruction(given) -> None:
    shown = dict(line.split(maxsplit=1) for line in cadmus("isa", given).stdout.splitlines())
    assert shown == {
        "symbol": "-",
        "name": "subtract",
        "group": "arithmetic",
        "effect": "a b → c",
        "meaning": "a - b",
        "alternate": "/",
        "example": "34- leaves -1",
    }
    (row,) = (
        row for row in json.loads(cadmus("isa", "--json").stdout)["instructions"] if row["symbol"] == "-"
    )
    assert json.loads(cadmus("isa", given, "--json").stdout) == row


def test_every_instruction_is_explained() -> None:
    for row in isa.INSTRUCTIONS:
        shown = CliRunner().invoke(command_line, ["isa", row.symbol]).stdout.splitlines()
        assert shown[0] == f"symbol     {row.symbol}"
        assert " leaves " in shown[-1]


def test_isa_json_is_the_table() -> None:
    table = json.loads(cadmus("isa", "--json").stdout)
    assert table["digest"] == isa.digest()
    assert table["limits"] == isa.LIMITS
    assert [row["symbol"] for row in table["instructions"]] == list(isa.BY_SYMBOL)
    assert table["instructions"][isa.TOKEN_ID["+"]] == {
        "symbol": "+",
        "name": "add",
        "group": "arithmetic",
        "effect": "a b → c",
        "inputs": 2,
        "outputs": 1,
        "meaning": "a + b",
        "alternate": "*",
    }


@pytest.mark.parametrize(
    "arguments", [[], ["--help"], ["--version"], ["run", "34+7="], ["isa"], ["isa", "="], ["llm", "-h"]]
)
def test_the_command_starts_without_a_heavy_package(arguments: list[str]) -> None:
    script = (
        "import sys; from cadmus.cli.main import main\n"
        "sys.argv[0] = 'cadmus'\n"
        "try:\n main()\n"
        "finally:\n print(*{name.partition('.')[0] for name in sys.modules}, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True)
    loaded = set(done.stderr.splitlines()[-1].split())
    assert {"cadmus", "click"} <= loaded
    assert not loaded & {"joblib", "matplotlib", "numba", "numpy", "openai", "polars", "pyarrow", "pydantic"}
    assert not loaded & {"sklearn", "starlette", "torch", "tqdm", "uvicorn", "yaml"}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_one_line() -> None:
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "cadmus", "run", "1"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert done.stderr == (
        "cadmus: error: cannot write standard output, or a temporary file: No space left on device\n"
    )
