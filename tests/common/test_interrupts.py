"""SIGINT and SIGTERM end a command with one line and exit code 1, wherever it is, and leave nothing."""

import os
import signal
import subprocess
import sys
import time

import pytest

from cadmus.common.interrupts import descendants, process_state
from tests.checkout import ROOT, environment_of

# Some modules catch everything while they are imported.
DURING_IMPORT = """
import contextlib, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "{module}":
            with contextlib.suppress(BaseException):
                signal.raise_signal(signal.{name})
            sys.exit("the command continues")

sys.meta_path.insert(0, Interrupting())
sys.argv = ["cadmus", *{arguments}]
from cadmus.__main__ import main
main()
"""
NAMES = ["SIGINT", "SIGTERM"]
TRAIN = ["train", "--config", "tests/tiny.yaml", "--dataset", "d", "--checkpoints", "c", "--output", "o"]


def execute(code, **options):
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=ROOT, env=environment_of(ROOT), capture_output=True, text=True, **options
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("click", ["fuzz"]),
        ("cadmus.cli.machine", ["run", "34+7="]),
        ("cadmus.config", [*TRAIN, "--metrics", "m"]),
    ],
)
def test_interrupted_import(module, arguments, name):
    done = execute(DURING_IMPORT.format(module=module, name=name, arguments=arguments))
    assert done == (1, "", "cadmus: interrupted\n")


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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_interrupted_fuzz(number, jobs):
    command = [sys.executable, "-m", "cadmus", "fuzz", "--programs", "1_000_000_000", "--jobs", jobs]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment_of(ROOT),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        deadline = time.monotonic() + 300
        # Until then, the signals are Python's; with two jobs, wait for both and the tracker of semaphores.
        while not handles(process.pid) or (jobs == "2" and len(descendants(process.pid)) < 3):
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.01)
        children = descendants(process.pid)
        # As from a terminal: to all.
        os.killpg(process.pid, number)
        output, error = process.communicate(timeout=300)
    finally:
        process.kill()
    assert (process.returncode, output) == (1, "")
    assert len(error.splitlines()) == 1
    assert "interrupted" in error
    deadline = time.monotonic() + 60
    while any((state := process_state(pid)) and state[0] not in "ZX" for pid in children):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def handles(pid):
    """Return True once a process handles SIGTERM."""
    with open(f"/proc/{pid}/status") as file:
        caught = next(line for line in file if line.startswith("SigCgt"))
    return int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1
