"""``cadmus`` in a pseudo-terminal."""

import functools
import os
import pty
import select
import subprocess
import sys
import time

from tests.checkout import ROOT

# Timeout in seconds.
TIMEOUT = 60.0


class Terminal:
    """A ``cadmus`` whose standard input, output and error are a pseudo-terminal.

    Args:
        arguments: Arguments of the command.
        environment: Changes to the environment.
    """

    def __init__(self, *arguments: str, **environment: str) -> None:
        self._ours, theirs = pty.openpty()
        settings = {name: value for name, value in os.environ.items() if not name.endswith("_COLOR")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "cadmus", *arguments],
            cwd=ROOT,
            env=settings | {"TERM": "xterm"} | environment,
            # For Ctrl-C.
            preexec_fn=functools.partial(os.login_tty, theirs),
        )
        os.close(theirs)
        self.shown = ""

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def wait_for(self, text: str) -> str:
        """Return the output since the last wait, up to and including ``text``."""
        end = time.monotonic() + TIMEOUT
        while text not in self.shown:
            if not self._read(end - time.monotonic()):
                self.process.kill()
                self.process.wait()
                raise AssertionError(f"{text!r} is not shown, but {self.shown!r}")
        seen, found, self.shown = self.shown.partition(text)
        return seen + found

    def rest(self) -> str:
        """Return the output until the command ends."""
        end = time.monotonic() + TIMEOUT
        while self._read(end - time.monotonic()):
            pass
        self.process.wait(TIMEOUT)
        os.close(self._ours)
        return self.shown

    def _read(self, seconds: float) -> bool:
        """Read more output; return False at its end or on timeout."""
        if not select.select([self._ours], [], [], max(0.0, seconds))[0]:
            return False
        try:
            more = os.read(self._ours, 4096)
        except OSError:
            # Linux: the other side is closed.
            return False
        self.shown += more.decode()
        return bool(more)
