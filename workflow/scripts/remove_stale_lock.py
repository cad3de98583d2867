"""Remove Snakemake's lock on the working directory if no Snakemake is running there.

This lets `make run` resume after a killed run or a power loss.
"""

import os
import shutil
from pathlib import Path

import psutil

LOCKS = Path(".snakemake/locks")


def snakemake_runs_here() -> bool:
    """Return True if a Snakemake process runs in the working directory."""
    here = os.getcwd()
    for process in psutil.process_iter(["cmdline"]):
        try:
            command = " ".join(process.info["cmdline"] or [])
            if process.pid != os.getpid() and "snakemake" in command and process.cwd() == here:
                return True
        except psutil.Error:
            # The process ended or belongs to another user.
            continue
    return False


if LOCKS.is_dir() and any(LOCKS.iterdir()) and not snakemake_runs_here():
    print("removing the lock of a killed run")
    shutil.rmtree(LOCKS)
