"""The command in a terminal of its own."""

import functools
import os
import pty
import select
import subprocess
import sys
import time

from tests.checkout import ROOT

PATIENCE = 60.0
"""Seconds until what is waited for is taken not to come."""


class Terminal:
    """A ``cadmus`` whose standard input, output and error are a pseudo-terminal.

    Args:
        arguments: of the command.
        environment: what differs from the environment of the tests.
    """

    def __init__(self, *arguments: str, **environment: str) -> None:
        self._ours, theirs = pty.openpty()
        settings = {name: value for name, value in os.environ.items() if not name.endswith("_COLOR")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "cadmus", *arguments],
            cwd=ROOT,
            env=settings | {"TERM": "xterm"} | environment,
            # So that Ctrl-C reaches it.
            preexec_fn=functools.partial(os.login_tty, theirs),
        )
        os.close(theirs)
        self.shown = ""

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def wait_for(self, text: str) -> str:
        """What is shown after the last wait, up to and with ``text``."""
        end = time.monotonic() + PATIENCE
        while text not in self.shown:
            if not self._read(end - time.monotonic()):
                self.process.kill()
                self.process.wait()
                raise AssertionError(f"{text!r} is not shown, but {self.shown!r}")
        seen, found, self.shown = self.shown.partition(text)
        return seen + found

    def rest(self) -> str:
        """What is shown until the command ends."""
        end = time.monotonic() + PATIENCE
        while self._read(end - time.monotonic()):
            pass
        self.process.wait(PATIENCE)
        os.close(self._ours)
        return self.shown

    def _read(self, seconds: float) -> bool:
        """Read more; False when there will not be any, or not in time."""
        if not select.select([self._ours], [], [], max(0.0, seconds))[0]:
            return False
        try:
            more = os.read(self._ours, 4096)
        except OSError:
            # So Linux says that nobody has the other side any more.
            return False
        self.shown += more.decode()
        return bool(more)
