"""Fixtures: the shipped model, and the address of its explorer."""

import re
import signal
import subprocess
import sys

import pytest

from cadmus import Cadmus
from dev.measure import PATIENCE
from tests.checkout import ROOT, environment_of


@pytest.fixture(scope="session")
def model():
    return Cadmus.load()


@pytest.fixture(scope="session")
def address():
    command = [sys.executable, "-m", "cadmus", "explore", "--port", "0", "--no-browser"]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment_of(ROOT), stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            yield re.search(r" at (http://127\.0\.0\.1:\d+) ", server.stdout.readline())[1]
        finally:
            server.send_signal(signal.SIGINT)
            assert server.wait(PATIENCE) == 0
