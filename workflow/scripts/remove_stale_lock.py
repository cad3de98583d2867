"""Remove Snakemake's lock on the working directory when no Snakemake runs here any more.

A run that was killed, or a power loss, leaves its lock behind, and `make run` is to go on all the same.
"""

import os
import shutil
from pathlib import Path

import psutil

LOCKS = Path(".snakemake/locks")


def snakemake_runs_here() -> bool:
    """Whether another process that looks like Snakemake works in this directory."""
    here = os.getcwd()
    for process in psutil.process_iter(["cmdline"]):
        try:
            command = " ".join(process.info["cmdline"] or [])
            if process.pid != os.getpid() and "snakemake" in command and process.cwd() == here:
                return True
        except psutil.Error:
            # The process ended, or belongs to somebody else.
            continue
    return False


if LOCKS.is_dir() and any(LOCKS.iterdir()) and not snakemake_runs_here():
    print("removing the lock of a run that was killed")
    shutil.rmtree(LOCKS)
