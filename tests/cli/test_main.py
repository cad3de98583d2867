"""The command line as a whole: help, errors, colors."""

import inspect
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml

from cadmus import isa
from cadmus.cli.main import COMMANDS as ENTRIES
from cadmus.cli.main import SECTIONS, cadmus, main
from cadmus.cli.options import MODEL
from cadmus.config import load_config
from cadmus.distribution import NAME, VERSION
from cadmus.model import DEFAULT_MODEL
from tests.checkout import ROOT
from tests.commands import invoke, python
from tests.config.quick import QUICK


def walk(command: click.Command, path: str = "cadmus") -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from walk(command.get_command(context, name), f"{path} {name}")


COMMANDS = dict(walk(cadmus))


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return python("-m", "cadmus", *arguments)


def shown_in_terminal(*arguments: str) -> str:
    """Return what the command prints in a pseudo-terminal."""
    ours, theirs = pty.openpty()
    settings = os.environ | {"TERM": "xterm"}
    command = [sys.executable, "-m", "cadmus", *arguments]
    done = subprocess.run(command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=ROOT, env=settings)
    assert done.returncode in (0, 2)
    # A few lines fit into the buffer of the terminal.
    shown = os.read(ours, 4096).decode()
    os.close(ours)
    os.close(theirs)
    return shown


@pytest.mark.parametrize("path", COMMANDS)
def test_a_command_has_examples_and_explains_its_options(path) -> None:
    command = COMMANDS[path]
    text = inspect.cleandoc(command.help or "")
    _, _, examples = text.replace("Example:", "Examples:").partition("\b\nExamples:\n")
    lines = examples.split("\n\n")[0].splitlines()
    assert any(f"{path} " in f"{line} " for line in lines), "an example of this command"
    # Examples are shown verbatim, in the terminal and as code blocks.
    assert all(line.startswith("  ") for line in lines)
    short = command.get_short_help_str(64)
    assert short[-3:] != "...", "the first sentence fits into the list"
    assert path.count(" ") != 1 or short == ENTRIES[command.name][2]
    for option in command.params:
        if isinstance(option, click.Option):
            assert option.help, option.opts
            assert option.help.endswith("."), option.opts
            # FILE and DIRECTORY are the names of types.
            assert option.is_flag or option.metavar or isinstance(option.type, click.Path), option.opts
        elif len(command.params) > 1 and option.nargs == 1:
            assert option.make_metavar(click.Context(command)).strip("[]{}") in text.replace("\b", ""), (
                option.name
            )


def test_the_help_lists_every_command_once() -> None:
    shown = invoke("-h").stdout
    listed = [
        line.split()[0] for line in shown.partition("Programs:")[2].splitlines() if line.startswith("  ")
    ]
    assert sorted(listed) == sorted(cadmus.commands)
    assert [line[:-1] for line in shown.splitlines() if line[:-1] in SECTIONS] == list(SECTIONS)
    assert shown == invoke("--help").stdout


def test_the_version_has_that_of_the_instruction_set() -> None:
    assert invoke("--version").stdout == f"{NAME} {VERSION} (instruction set {isa.digest()})\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["smaple"], "No such command 'smaple'. Did you mean 'sample'? (`cadmus --help` says more)"),
        (["run", "--trce", "34+7="], "No such option '--trce'. Did you mean '--trace'? (`cadmus run --help`"),
        (["run", "34", "+", "7"], "Got unexpected extra arguments (+ 7) (`cadmus run --help`"),
        (["complete", "1", "--top", "0"], "0 is not in the range 1<=x<=65"),
        (["complete", "1", "--model", "nope"], "no directory or shipped model 'nope'; there are flagship"),
        (["sample", "equalty"], "no template 'equalty'; did you mean 'equality'?"),
        (["sample", "equality", "--split", "tset"], "no split 'tset'; did you mean 'test'?"),
        (["isa", "--\x1b[2J\x07"], "No such option '--\\x1b[2J\\x07'"),
        (["shard", "x", "--split", "test", "--number", "7"], "--template, --number: name one shard together"),
        (["shard", "x", "--split", "ood"], "no split 'ood'; there are train, validation, test"),
        (["plan", "config/quik.yaml"], "config/quik.yaml: No such file or directory"),
        (["config", "show", "config"], "no config 'config'; there are diffusion, first, "),
        (["card", "config/quick.yaml"], "Directory 'config/quick.yaml' is a file"),
        (["evaluate", "completion"], "No such command 'completion'. Did you mean 'completions'? (`cadmus ev"),
        (["figure", "grid", "--output", "x"], "no figure or table 'grid'; there are table3"),
        (["complete", "1", "--model", "nowhere/lptop"], "Directory 'nowhere/lptop' does not exist"),
        (
            ["figure", "grid_regions", "--results", "docs/resutls/quick/grid_regions.csv", "--output", "x"],
            "cannot read docs/resutls/quick/grid_regions.csv: No such file or directory",
        ),
    ],
)
def test_an_invalid_command_is_one_line_with_a_suggestion(arguments, message, monkeypatch, capsys) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("sys.argv", ["cadmus", *arguments])
    with pytest.raises(SystemExit) as left:
        main()
    shown = capsys.readouterr()
    assert (left.value.code, shown.out) == (2, "")
    assert shown.err.startswith("cadmus: error: ")
    assert shown.err.count("\n") == 1
    assert message in shown.err


def test_a_closed_standard_input_is_one_line() -> None:
    shell = ["sh", "-c", f"{sys.executable} -m cadmus run - <&-"]
    done = subprocess.run(shell, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "cadmus: error: standard input: is closed; pipe programs into it, or open it with </dev/null\n"
    )


@pytest.mark.parametrize("variable", ["NUMBA_NUM_THREADS=abc", "POLARS_MAX_THREADS=0", "OMP_NUM_THREADS=1,x"])
def test_a_number_of_threads_that_is_none_is_one_line(variable):
    name, _, value = variable.partition("=")
    done = python("-m", "cadmus", "sample", "equality", "-n", "1", **{name: value})
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"cadmus: error: {name}: must be a whole number of at least 1, got {value!r}")


def test_a_backend_for_windows_is_ignored(tmp_path):
    output = tmp_path / "table.md"
    done = python("-m", "cadmus", "figure", "table2_instructions", "--output", output, MPLBACKEND="bad")
    assert (done.returncode, output.exists()) == (0, True), done.stderr


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (MemoryError("2.00 TiB"), "out of memory or threads; ask for less at a time"),
        (RuntimeError("can't start new thread"), "out of memory or threads; ask for less at a time"),
        (ImportError("libx.so: failed to map segment"), "out of memory or threads; ask for less at a time"),
        (OSError(28, "No space left on device", "x.parquet"), "x.parquet: No space left on device"),
        (OSError(36, "File name too long", "a" * 100_000), "aaa: File name too long"),
        (UnicodeEncodeError("latin-1", "→", 0, 1, "ordinal"), "'latin-1' codec can't encode character"),
    ],
)
def test_an_error_of_the_machine_is_one_line(error, message, monkeypatch, capsys) -> None:
    def fail(**options: object) -> None:
        raise error

    monkeypatch.setattr(cadmus, "main", fail)
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert (shown.count("\n"), len(shown) < 1_500) == (1, True)


@pytest.mark.parametrize(
    ("number", "code", "message"),
    [(signal.SIGINT, 1, "\ncadmus: interrupted\n"), (signal.SIGTERM, 143, "")],
)
def test_signals_end_a_command(number, code, message) -> None:
    command = [sys.executable, "-m", "cadmus", "run", "-"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=ROOT, text=True, bufsize=1, **pipes) as process:
        process.stdin.write("1\n")
        assert process.stdout.readline() == "true\n"
        process.send_signal(number)
        assert (process.wait(), process.stderr.read()) == (code, message)


def test_a_shipped_model_has_a_name(tmp_path, monkeypatch) -> None:
    assert MODEL.convert("laptop", None, None) == DEFAULT_MODEL == ROOT / "models/laptop"
    assert MODEL.convert("models/laptop", None, None) == Path("models/laptop")
    # A directory wins over a name.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "laptop").mkdir()
    assert MODEL.convert("laptop", None, None) == Path("laptop")


def test_colors_are_for_terminals() -> None:
    assert "\x1b[32mtrue\x1b[0m" in shown_in_terminal("run", "34+7=")
    assert "\x1b[31mfalse\x1b[0m" in shown_in_terminal("run", "34+8=")
    assert "\x1b[31mcadmus: error:\x1b[0m" in shown_in_terminal("run", "q")
    assert "\x1b[1minstruction" in shown_in_terminal("run", "--trace", "1")
    for arguments in (["run", "34+7="], ["run", "q"], ["isa"]):
        done = run(*arguments)
        assert "\x1b" not in done.stdout + done.stderr


def test_sample_json_has_the_prompts() -> None:
    shown = invoke("sample", "less_greater", "-n", 3, "--json").stdout
    plain = invoke("sample", "less_greater", "-n", 3).stdout
    rows = [json.loads(line) for line in shown.splitlines()]
    assert [row["program"] for row in rows] == plain.splitlines()
    for row in rows:
        assert row["template"] == "less_greater"
        assert row["program"] == row["prompt"] + ("<" if row["x"] < row["y"] else ">")


def test_config_show_is_the_config_with_its_defaults() -> None:
    shown = invoke("config", "show", "quick").stdout
    assert yaml.safe_load(shown) == load_config(QUICK).model_dump()
    assert invoke("config", "show", QUICK).stdout == shown
