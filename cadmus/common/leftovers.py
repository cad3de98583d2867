"""Temporary files with the name of their writer, and the removal of those that a killed writer left.

The directory may be shared by the nodes of a cluster, where a process of another node may still write. So
the name holds the machine, the process and its start: ``.NAME.MACHINE-PID-START-NUMBER.SUFFIX``. A writer
removes the temporary files of the same NAME whose process has ended on this machine, and those of other
machines once they are a week old.
"""

import functools
import hashlib
import itertools
import os
import re
import shutil
import socket
import time
from contextlib import suppress
from pathlib import Path

from cadmus.common.interrupts import process_state

WEEK = 7 * 24 * 3600.0
"""Seconds after which the temporary file of another machine counts as left behind."""

_WRITER = re.compile(r"(?P<machine>[0-9a-f]{12})-(?P<pid>\d+)-(?P<start>\d+)-\d+")
_numbers = itertools.count()


def temporary_path(path: Path) -> Path:
    """Return an unused path beside ``path`` that names this process; its suffix is that of ``path``."""
    pid = os.getpid()
    writer = f"{_machine()}-{pid}-{_start(pid)}-{next(_numbers)}"
    return path.with_name(f".{path.name}.{writer}{path.suffix}")


def remove_leftovers(path: Path) -> None:
    """Remove the temporary files and directories for ``path`` whose writers were killed."""
    before, after = f".{path.name}.", path.suffix
    for found in os.listdir(path.parent):
        if not (found.startswith(before) and found.endswith(after)):
            continue
        writer = _WRITER.fullmatch(found[len(before) : len(found) - len(after)])
        if writer and _abandoned(path.with_name(found), **writer.groupdict()):
            remove(path.with_name(found))


def remove(path: Path) -> None:
    """Remove a file, or a directory with all its files, if it exists and permissions allow it."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def _abandoned(path: Path, machine: str, pid: str, start: str) -> bool:
    if machine != _machine():
        try:
            return time.time() - path.lstat().st_mtime > WEEK
        except FileNotFoundError:
            # Its writer has moved it meanwhile.
            return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        # A process of another user.
        return False
    state = process_state(int(pid))
    return state is not None and (state[0] in "ZX" or state[2] != int(start))


def _start(pid: int) -> int:
    state = process_state(pid)
    return 0 if state is None else state[2]


@functools.cache
def _machine() -> str:
    """Return a digest of what process ids belong to: host, boot and, in a container, its namespace."""
    parts = [socket.gethostname()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii"))
    with suppress(OSError):
        parts.append(os.readlink("/proc/self/ns/pid"))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
