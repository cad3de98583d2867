"""The command line in this process, and Python in another one."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cadmus.cli.main import cadmus
from cadmus.errors import InputError
from cadmus.store import TEMPORARY
from dev.measure import PATIENCE
from tests.checkout import ROOT, environment_of


def invoke(*words: object, stdin: str | bytes = "", **options: object) -> Result:
    """Run ``cadmus`` with words and options, such as ``max_length=5``; its errors are raised."""
    written = (word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value))
    return CliRunner().invoke(cadmus, [*map(str, (*words, *written))], input=stdin, catch_exceptions=False)


def refused(*words: object, **options: object) -> str:
    """Return the one line with which ``cadmus`` refuses its input."""
    with pytest.raises(InputError) as caught:
        invoke(*words, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def python(*words: object, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python with words, and with more variables of the environment."""
    command = [sys.executable, *map(str, words)]
    variables = os.environ | environment
    return subprocess.run(
        command, cwd=cwd, env=variables, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


def unfinished(name: str) -> str:
    """Return the name of an unfinished file whose writer, a process of this machine, was killed."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return f"{TEMPORARY}{socket.gethostname()}-{ended.pid}-0-{name}"


@contextmanager
def served(*words: object, line: str) -> Iterator[str]:
    """Run a command of ``cadmus`` that serves; yield what its first line has, and stop it with Ctrl-C."""
    command = [sys.executable, "-m", "cadmus", *map(str, words)]
    pipes: dict[str, int] = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, cwd=ROOT, env=environment_of(ROOT), text=True, **pipes) as process:
        try:
            printed = process.stdout.readline()
            found = re.search(line, printed)
            assert found, (printed, process.stderr.read())
            yield found[1]
            process.send_signal(signal.SIGINT)
            output, errors = process.communicate(timeout=PATIENCE)
            assert (process.returncode, output, errors) == (0, "", "")
        finally:
            process.kill()
