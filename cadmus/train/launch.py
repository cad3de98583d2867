"""Several ranks on this machine, as torchrun starts them but without its traceback over an error of ours."""

import os
import signal
import socket
import subprocess
import sys
import time

GRACE_SECONDS = 20.0
"""How long the other ranks may go on once one has failed; they may be waiting for it for ever."""


def free_port() -> int:
    """A TCP port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run_ranks(command: list[str], count: int) -> int:
    """Run ``command`` as ``count`` ranks; SIGTERM and SIGINT are passed on to all of them.

    Returns:
        The exit code of the first rank that failed, or 0.
    """
    shared = {
        "WORLD_SIZE": str(count),
        "LOCAL_WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
    }
    ranks = [
        subprocess.Popen(command, env={**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)})
        for rank in range(count)
    ]

    def pass_on(number: int, frame: object) -> None:
        for rank in ranks:
            rank.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, pass_on)
    failed_at = None
    while None in [rank.poll() for rank in ranks]:
        if failed_at is None and any(rank.returncode for rank in ranks):
            failed_at = time.monotonic()
        if failed_at is not None and time.monotonic() - failed_at > GRACE_SECONDS:
            for rank in ranks:
                rank.kill()
        time.sleep(0.1)
    codes = [rank.returncode for rank in ranks if rank.returncode]
    # A rank that was killed here, or by a signal of its own, has a negative code.
    return next((code for code in codes if code > 0), 1 if codes else 0)


def python_command() -> list[str]:
    """The running ``cadmus`` command, to be started again."""
    return [sys.executable, "-m", "cadmus", *sys.argv[1:]]
