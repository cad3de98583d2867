"""Servers exit with code 0 when interrupted, even while they start."""

import signal
import socket
import subprocess
import sys

import pytest
import uvicorn
from starlette.applications import Starlette

from cadmus.cli.server import listening, run_server, stoppable
from tests.checkout import ROOT, environment_of

INTERRUPTED_IMPORT = """
import contextlib, signal, sys
from cadmus.cli.main import main

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "cadmus.model.inference":
            # Some modules catch everything while they are imported.
            with contextlib.suppress(BaseException):
                signal.raise_signal(signal.{signal})
            sys.exit("the command continues")

sys.meta_path.insert(0, Interrupting())
sys.argv = ["cadmus", "{command}", "--port", "0"]
main()
"""

INTERRUPTED_LOADING = """
import signal, sys
from cadmus.cli.main import main
from cadmus.model.inference import Cadmus

def load(*arguments):
    signal.raise_signal(signal.{signal})
    sys.exit("the command continues")

Cadmus.load = load
sys.argv = ["cadmus", "{command}", "--port", "0"]
main()
"""


def result(code):
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, env=environment_of(ROOT), capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("command", ["explore", "serve"])
def test_interrupt_during_imports(command, name):
    assert result(INTERRUPTED_IMPORT.format(command=command, signal=name)) == (0, "", "")


@pytest.mark.parametrize(("command", "name"), [("explore", "SIGINT"), ("serve", "SIGTERM")])
def test_interrupt_during_loading(command, name):
    assert result(INTERRUPTED_LOADING.format(command=command, signal=name)) == (0, "", "")


def test_signal_handlers_are_restored():
    numbers = (signal.SIGINT, signal.SIGTERM)
    former = [signal.getsignal(number) for number in numbers]
    with stoppable():
        assert all(signal.getsignal(number) not in former for number in numbers)
    assert [signal.getsignal(number) for number in numbers] == former


def test_a_closed_standard_output_is_no_problem(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(uvicorn.Server, "run", lambda server, sockets: None)
    with listening("127.0.0.1", 0) as listener:
        run_server(Starlette(), listener)


def test_no_delay():
    with listening("127.0.0.1", 0) as listener:
        assert listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
