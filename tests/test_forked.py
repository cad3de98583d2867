"""Commands as forks of the server behave as new processes do."""

import os
import signal
import subprocess
import sys

import pytest

from dev.measure import PATIENCE
from tests.checkout import ROOT, environment_of
from tests.forked import ADDRESS

MODULE = """\
import os, signal, sys
print(sys.argv[1:], os.getcwd(), os.environ["COLOR"], flush=True)
print(sys.stdin.readline(), end="", file=sys.stderr)
if sys.argv[1] == "wait":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
    print("waits", flush=True)
    signal.pause()
if sys.argv[1] == "die":
    os.kill(os.getpid(), signal.SIGKILL)
sys.exit(f"a {sys.argv[1]}" if sys.argv[1] == "message" else int(sys.argv[1]))
"""


@pytest.fixture
def start(tmp_path):
    """Start ``python -m cadmus``, a module of this directory, with an argument and a line of input."""
    (tmp_path / "cadmus.py").write_text(MODULE)
    (tmp_path / "sitecustomize.py").write_text("from tests import forked\n\nforked.hand_over()\n")
    path = os.pathsep.join(map(str, (tmp_path, ROOT)))
    kept = {"PYTHONPATH": path, "COLOR": "red", ADDRESS: os.environ[ADDRESS]}

    def started(argument: str) -> subprocess.Popen[str]:
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        command = [sys.executable, "-m", "cadmus", argument]
        process = subprocess.Popen(
            command, cwd=tmp_path, env=environment_of(tmp_path) | kept, text=True, bufsize=1, **pipes
        )
        process.stdin.write("a line\n")
        assert process.stdout.readline() == f"{[argument]} {tmp_path} red\n"
        return process

    return started


@pytest.mark.parametrize(
    ("argument", "code", "errors"),
    [("0", 0, ""), ("2", 2, ""), ("message", 1, "a message\n"), ("die", -signal.SIGKILL, "")],
)
def test_streams_and_exit_codes(start, argument, code, errors):
    with start(argument) as process:
        assert process.communicate(timeout=PATIENCE) == ("", "a line\n" + errors)
        assert process.returncode == code


def test_a_signal_reaches_the_command(start):
    with start("wait") as process:
        assert process.stdout.readline() == "waits\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 3
