"""Remove Snakemake's lock on the working directory if no Snakemake is running there.

This lets `make run` resume after a killed run or a power loss. A lock does not name its process, only its
user: it stays if that is another one, or while a Snakemake of this user may be running here.
"""

import os
import shutil
from contextlib import suppress
from pathlib import Path

import psutil

LOCKS = Path(".snakemake/locks")


def holder() -> str | None:
    """Return who may hold the lock, or None."""
    for lock in LOCKS.iterdir():
        if lock.stat().st_uid != os.getuid():
            return f"user {lock.stat().st_uid}"
    for process in psutil.process_iter():
        # It may end meanwhile.
        with suppress(psutil.Error):
            mine = process.uids().effective == os.getuid()
            if mine and is_snakemake(process.cmdline()) and may_run_here(process):
                return f"process {process.pid}"
    return None


def is_snakemake(command: list[str]) -> bool:
    """Return True for the command line of `snakemake`, or of Python with it as script or module."""
    program, *words = [Path(word).name for word in command] or [""]
    return program == "snakemake" or (program.startswith("python") and "snakemake" in words)


def may_run_here(process: psutil.Process) -> bool:
    try:
        return process.cwd() == os.getcwd()
    except psutil.AccessDenied:
        return True


if LOCKS.is_dir() and any(LOCKS.iterdir()):
    held_by = holder()
    if held_by is None:
        print("removing the lock of a killed run")
        shutil.rmtree(LOCKS)
    else:
        print(f"{LOCKS}: held by {held_by}; if no Snakemake runs here, use `.venv/bin/snakemake --unlock`")
