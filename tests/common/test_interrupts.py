"""SIGINT and SIGTERM end a command with one line and exit code 1, wherever it is, and leave nothing."""

import subprocess
import sys

import pytest

from cadmus.common.interrupts import process_state
from tests.checkout import ROOT, environment_of

NAMES = ["SIGINT", "SIGTERM"]


def execute(code, **options):
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=ROOT, env=environment_of(ROOT), capture_output=True, text=True, **options
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "place",
    [
        "signal.raise_signal(number)",
        "sorted([1, 2], key=lambda _: signal.raise_signal(number) or 1)",
        # Python reports an exception of a destructor and continues.
        "type('C', (), {'__del__': lambda self: signal.raise_signal(number)})()",
    ],
)
def test_no_place_loses_a_signal(tmp_path, place, name):
    code = f"""
import signal
from cadmus.common import interrupts
from cadmus.common.files import replacing, replacing_directory, temporary_directory
from pathlib import Path
number = signal.{name}
directory = Path({str(tmp_path)!r})
interrupts.install()
with replacing(directory / "a.txt") as a, replacing_directory(directory / "b") as b:
    a.write_text("1")
    (b / "c").write_text("1")
    {place}
    print("continued")
"""
    assert execute(code) == (1, "", "cadmus: interrupted\n")
    assert not list(tmp_path.iterdir())


def test_children_are_stopped():
    code = """
import signal, subprocess, sys
from cadmus.common import interrupts
interrupts.install()
# One that handles SIGTERM, and one that ignores it; of both, this process waits for the end.
first = subprocess.Popen(["sleep", "1000"])
last = subprocess.Popen(["sh", "-c", "trap '' TERM; echo $$; sleep 1000"])
interrupts._grace = 0.2
print(first.pid, last.pid, flush=True)
signal.raise_signal(signal.SIGTERM)
"""
    code, output, error = execute(code)
    assert (code, error) == (1, "cadmus: interrupted\n")
    for pid in map(int, output.split()):
        state = process_state(pid)
        assert state is None or state[0] in "ZX"


def test_ignored_signals_stay_ignored():
    code = """
import signal
from cadmus.common import interrupts
signal.signal(signal.SIGINT, signal.SIG_IGN)
interrupts.install()
signal.raise_signal(signal.SIGINT)
print("continued")
"""
    assert execute(code) == (0, "continued\n", "")


def test_a_raised_interrupt_is_raised_once():
    code = """
import signal
from cadmus.common import interrupts
with interrupts.raising():
    try:
        signal.raise_signal(signal.SIGTERM)
    except KeyboardInterrupt:
        signal.raise_signal(signal.SIGINT)
        print("cleaned up")
"""
    assert execute(code) == (0, "cleaned up\n", "")


def test_an_action_gives_the_message():
    code = """
import signal
from cadmus.common import interrupts
interrupts.install()
with interrupts.on_interrupt(lambda: "at step 3"):
    signal.raise_signal(signal.SIGTERM)
"""
    assert execute(code) == (1, "", "at step 3\n")
