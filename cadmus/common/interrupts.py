"""SIGINT and SIGTERM: one line on standard error and exit code 1, at every moment of a command.

The handler ends the process itself. An exception would be lost in C callbacks, in destructors and in modules
that catch everything while they are imported.
"""

import itertools
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
GRACE = 10.0
"""Seconds for child processes to end after SIGTERM, before SIGKILL."""

_Action = Callable[[], str | None]
_actions: dict[int, _Action] = {}
_keys = itertools.count()
_grace = GRACE
_pid = 0


def install() -> None:
    """Handle both signals from now on, except those that are ignored, as after ``nohup``.

    Actions of :func:`on_interrupt` run, child processes are stopped, and the exit code is 1.
    """
    global _pid
    _pid = os.getpid()
    _handle(_exit)


@contextmanager
def on_interrupt(action: _Action) -> Iterator[None]:
    """Call ``action`` if a signal ends the process inside the block; a string it returns is the message."""
    key = next(_keys)
    _actions[key] = action
    try:
        yield
    finally:
        del _actions[key]


@contextmanager
def waiting_for_children(seconds: float) -> Iterator[None]:
    """Handle signals inside the block; child processes have ``seconds`` to end and print the message."""
    global _grace
    with restored(), on_interrupt(lambda: ""):
        _grace = seconds
        try:
            install()
            yield
        finally:
            _grace = GRACE


@contextmanager
def raising() -> Iterator[None]:
    """Raise KeyboardInterrupt at the first signal inside the block and ignore others until it has ended.

    For blocks whose ``finally`` stops processes of :mod:`multiprocessing`, which leave semaphores otherwise.
    """
    with restored():
        _handle(_raise)
        yield


@contextmanager
def keyboard() -> Iterator[None]:
    """Raise KeyboardInterrupt at each SIGINT inside the block, where Ctrl-C ends a line of input."""
    with restored():
        if signal.getsignal(signal.SIGINT) is _exit:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        yield


@contextmanager
def held_back() -> Iterator[None]:
    """Deliver signals after the block; processes of multiprocessing that it starts begin with both blocked.

    They leave the signals to the parent process, which ends them with SIGKILL: Ctrl-C in a terminal reaches
    all of them, even before their first line.
    """
    from multiprocessing import resource_tracker

    # Started with the first process of multiprocessing, it would unblock the signals.
    resource_tracker.ensure_running()
    received: list[int] = []
    with restored():
        # Blocked in this thread alone, a signal would reach Python through another one, such as of OpenBLAS.
        _handle(lambda number, frame: received.append(number))
        before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if received:
        signal.raise_signal(received[0])


def _handle(handler: Callable[[int, FrameType | None], None]) -> None:
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


@contextmanager
def restored() -> Iterator[Callable[[], None]]:
    """Restore the handlers after a block that sets others; the function that it yields does so at once."""
    former = {number: signal.getsignal(number) for number in SIGNALS}

    def restore() -> None:
        for number, handler in former.items():
            signal.signal(number, handler)

    try:
        yield restore
    finally:
        restore()


def _raise(number: int, frame: FrameType | None) -> None:
    _ignore()
    raise KeyboardInterrupt


def _exit(number: int, frame: FrameType | None) -> None:
    _ignore()
    # A forked process has neither the files nor the children of this one.
    if os.getpid() == _pid:
        stop_children(_grace)
        # Of several ranks, the first one speaks.
        message = "cadmus: interrupted" if os.environ.get("RANK", "0") == "0" else ""
        for action in reversed(list(_actions.values())):
            with suppress(Exception):
                returned = action()
                message = message if returned is None else returned
        if message:
            # Python's buffer may be in use.
            with suppress(OSError):
                os.write(2, (b"\n" if os.isatty(2) else b"") + message.encode() + b"\n")
    os._exit(1)


def _ignore() -> None:
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def stop_children(seconds: float = GRACE) -> None:
    """Send SIGTERM to all child processes and, after some seconds, SIGKILL to all descendants."""
    waiting = {pid for pid, parent in _parents().items() if parent == os.getpid()}
    for pid in waiting:
        _send(pid, signal.SIGTERM)
    deadline = time.monotonic() + seconds
    while waiting and time.monotonic() < deadline:
        waiting = {pid for pid in waiting if not _ended(pid)}
        time.sleep(0.01 if waiting else 0)
    if waiting:
        for pid in descendants(os.getpid()):
            _send(pid, signal.SIGKILL)


def descendants(process: int) -> list[int]:
    """Return the processes that a process has started, and those that these have; on Linux alone."""
    parents = _parents()
    found = [process]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found[1:]


def session_of(leader: int) -> list[int]:
    """Return the processes of the session that a process leads; on Linux alone."""
    return [pid for pid in _processes() if _session(pid) == leader]


def process_state(pid: int) -> tuple[str, int, int] | None:
    """Return state, parent and start time (in clock ticks after boot) of a process, if /proc shows it."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name of the command, in parentheses, may hold anything.
            fields = file.read().rpartition(b")")[2].split()
        return fields[0].decode(), int(fields[1]), int(fields[19])
    except (OSError, IndexError, ValueError):
        return None


def _processes() -> dict[int, tuple[str, int, int]]:
    """Return :func:`process_state` of all processes but those that have ended."""
    try:
        pids = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return {}
    states = ((pid, process_state(pid)) for pid in pids)
    return {pid: state for pid, state in states if state is not None and state[0] not in "ZX"}


def _parents() -> dict[int, int]:
    return {pid: parent for pid, (_, parent, _) in _processes().items()}


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return -1


def _send(pid: int, number: Any) -> None:
    with suppress(OSError):
        os.kill(pid, number)


def _ended(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True
