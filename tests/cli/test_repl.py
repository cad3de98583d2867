"""``cadmus repl``: its answers, a pipe and a terminal."""

import subprocess
import sys
import time

import click
import pytest

from cadmus import isa
from cadmus.cli.repl import MARK, Session
from cadmus.config import TEMPLATES
from cadmus.errors import InputError
from cadmus.model.inference import Cadmus
from tests.cli.exports import TRAINED_LENGTH
from tests.cli.terminal import ROOT, Terminal


@pytest.fixture
def session():
    """A session without a model; each template has one program."""
    return Session(None, {"equality": "34+7="}.__getitem__)


@pytest.fixture
def guessing(export):
    return Session(lambda: Cadmus.load(export), str)


def answers(session: Session, *lines: str) -> list[list[str]]:
    """Enter ``lines`` and return the words of each line of the last answer."""
    for line in lines:
        shown = [click.unstyle(answer) for answer in session.enter(line)]
    return [line.split() for line in shown]


def test_the_command_mark_is_not_an_instruction() -> None:
    assert MARK not in isa.BY_SYMBOL


def test_instructions_are_appended_and_executed(session) -> None:
    assert answers(session, "34") == [["instruction", "stack"], ["3", "3"], ["4", "3", "4"]]
    assert answers(session, " + ") == [["+", "7"]]
    assert answers(session, "7=.12<") == [
        ["7", "7", "7"],
        ["=", "1"],
        [".", "1"],
        ["34+7=.", "true"],
        ["instruction", "stack"],
        ["1", "1"],
        ["2", "1", "2"],
        ["<", "1"],
    ]
    assert answers(session, "", " 0 ", "  ") == [[".", "0"], ["0.", "false"]]
    assert answers(session, "") == []


def test_definitions_are_shown_as_they_grow(session) -> None:
    assert answers(session, r"9f\41\-*;E") == [
        ["instruction", "stack"],
        ["9", "9"],
        ["f", "NAN"],
        ["\\", "defining", "0:"],
        ["4", "defining", "0:", "4"],
        ["1", "defining", "0:", "41"],
        ["\\", "defining", "0:", "41"],
        ["-", "defining", "0:", "41-"],
        ["*", "defining", "0:", "41-*"],
        [";", "27"],
        ["E", "27", "27"],
    ]
    assert answers(session, "\\1.")[-3:] == [
        ["1", "defining", "1:", "1"],
        [".", "27", "27"],
        [r"9f\41\-*;E\1.", "true"],
    ]


def test_columns_stay_aligned_after_a_wide_stack(guessing) -> None:
    *_, wide, narrow, narrower = guessing.enter("123456789" * 2 + "__")
    assert wide.startswith("9  ")
    assert len(wide) == len(narrow) == len(narrower) > len("instruction") + 2 * 18


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("7q", "unknown symbol 'q' at position 2 of the program '7q'"),
        (",nxt", "no command ,nxt; did you mean ',next'?"),
        (",", "no command ,; there are ,next, ,complete"),
        (",sample", ",sample: write ,sample TEMPLATE"),
        (",undo 1 2", ",undo 1 2: write ,undo [N]"),
        (",undo x", ",undo x: N must be"),
        (",undo 0", ",undo 0: N must be"),
        (",undo " + "9" * 5_000, ",undo 99999999999999999999: N must be"),
        ("1" * 100_000, "a program has at most 1,000 instructions here"),
        (",complete", "has no model"),
    ],
)
def test_an_invalid_line_changes_nothing(session, line, message) -> None:
    answers(session, "34")
    with pytest.raises(InputError, match=r"^[^\n]*$") as caught:
        answers(session, line)
    assert message in str(caught.value)
    assert session.program == "34"


def test_undo_removes_instructions_or_an_end(session) -> None:
    with pytest.raises(InputError, match="nothing to undo"):
        answers(session, ",undo")
    assert answers(session, "34+7=", ",undo 2")[-1] == ["+", "7"]
    assert session.program == "34+"
    answers(session, ".", ",undo")
    assert session.program == "34+"
    answers(session, ",clear", ",undo")
    assert session.program == "34+"
    assert answers(session, ",undo 9") == [["the", "program", "is", "empty"]]


def test_trace_shows_the_whole_program(session) -> None:
    assert answers(session, "3", "4", ",trace") == [["instruction", "stack"], ["3", "3"], ["4", "3", "4"]]


def test_next_lists_instructions_that_make_the_program_true(session) -> None:
    ((*words,),) = answers(session, "34+7", ",next")
    assert words[:2] == ["true", "after"]
    assert {"=", "."} <= set(words[2:])
    assert not {"<", ">", "!"} & set(words[2:])
    assert answers(session, ".", "000", ",next") == [["true", "after", "no", "single", "instruction"]]


def test_sample_ends_the_program_and_types_another(session) -> None:
    shown = answers(session, "1", ",sample equality")
    assert shown[1] == ["1.", "true"]
    assert shown[-1] == ["=", "1"]
    assert session.program == "34+7="


def test_guesses_do_not_see_the_instruction(guessing) -> None:
    whole = answers(guessing, "34+7=")
    assert whole[0] == ["instruction", "stack", "guess", "truth"]
    assert whole[1] == ["3", "3"], "no prediction before the first instruction"
    assert answers(guessing, ",clear", "34+") == whole[:4]
    most_likely, _ = answers(guessing, ",next")
    row = answers(guessing, "7")[0]
    # instruction, stack of two, guess with percent, truth with percent
    assert row[3:5] == most_likely[2:4]
    assert row[5] == "7"
    assert float(row[6].rstrip("%")) <= float(row[4].rstrip("%"))


def test_complete_appends_the_greedy_completion(guessing) -> None:
    with pytest.raises(InputError, match="has 0 instructions, must have 1 to"):
        answers(guessing, ",complete")
    for start in ("34+7", "rs", "0", "1", "-"):
        shown = answers(guessing, start, ",complete")
        cut_off = shown[-1][:2] == ["cut", "off"]
        assert cut_off == bool(guessing.program)
        rows = shown[:-1]
        assert all(row[-4] == row[-2] for row in rows if row[-1].endswith("%")), "greedy"
        if cut_off:
            assert len(guessing.program) == TRAINED_LENGTH
            answers(guessing, ",clear")
    answers(guessing, "1" * (TRAINED_LENGTH + 1))
    with pytest.raises(InputError, match=f"has 13 instructions, must have 1 to {TRAINED_LENGTH}"):
        answers(guessing, ",complete")


def test_candidates_are_commands_and_templates(session) -> None:
    assert session.candidates(",sa") == [",sample "]
    assert session.candidates(",sample eq") == ["equality"]
    assert set(session.candidates(",sample ")) == set(TEMPLATES)
    assert session.candidates("3") == session.candidates(",undo 3") == session.candidates("") == []


def test_a_piped_session_has_no_prompt_and_reports_invalid_lines(export) -> None:
    command = [sys.executable, "-m", "cadmus", "repl", "--model", str(export)]
    typed = "34+7\n=q\n=\n,sample random\n,quit\n1\n"
    done = subprocess.run(command, input=typed, capture_output=True, text=True, cwd=ROOT)
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["instruction", "stack", "guess", "truth"]
    assert "34+7=.  true" in lines
    assert ">" not in lines[1]
    assert "\x1b" not in done.stdout
    assert done.stderr.startswith("cadmus: error: unknown symbol 'q' at position 2")
    assert (done.stderr.count("\n"), done.returncode) == (1, 2)


def test_the_end_of_a_pipe_ends_the_program() -> None:
    command = [sys.executable, "-m", "cadmus", "repl", "--no-model"]
    done = subprocess.run(command, input="34+8=", capture_output=True, text=True, cwd=ROOT)
    assert (done.stdout.splitlines()[-1], done.stderr, done.returncode) == ("34+8=.  false", "", 0)


def test_a_model_that_cannot_be_loaded_ends_the_session(tmp_path) -> None:
    command = [sys.executable, "-m", "cadmus", "repl", "--model", str(tmp_path)]
    done = subprocess.run(command, input="34\n+\n", capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 2
    assert "is not a model export" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_terminal_has_a_prompt_history_and_tab(tmp_path) -> None:
    settings = {"XDG_STATE_HOME": str(tmp_path)}
    terminal = Terminal("repl", "--no-model", **settings)
    terminal.wait_for("\n> ")
    terminal.type("34+7\n")
    assert "3 4" in terminal.wait_for("34+7> ")
    terminal.type("1")
    terminal.wait_for("1")
    # A signal just before Python waits for a key is not seen until there is one.
    time.sleep(0.5)
    terminal.type("\x03")
    terminal.wait_for("34+7> ")
    terminal.type("=.\n")
    assert "\x1b[32mtrue" in terminal.wait_for("\n> ")
    terminal.type(",sa\teq\t\n")
    assert ",sample equality" in terminal.wait_for("stack")
    terminal.type(",quit\n")
    terminal.rest()
    assert terminal.process.returncode == 0

    terminal = Terminal("repl", **settings)
    terminal.wait_for("\n> ")
    # The line before the last one of the earlier session; the model is still being loaded at the end.
    terminal.type("\x1b[A\x1b[A")
    terminal.wait_for("sample equality")
    terminal.type("\x15,quit\n")
    assert "Traceback" not in terminal.rest()
    assert terminal.process.returncode == 0
