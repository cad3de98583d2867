"""``cadmus repl`` in a pipe and in a terminal."""

import subprocess
import sys
import time

from tests.cli.terminal import ROOT, Terminal


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
