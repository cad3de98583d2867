"""Remove Snakemake's lock on the working directory if its run was killed, so that `make run` resumes.

A lock does not name its process, only its user: it stays if that is another one, or while a Snakemake of this
user may be running here.
"""

import os
import shutil
from pathlib import Path

import psutil

LOCKS = Path(".snakemake/locks")


def holders():
    """Yield who may hold the lock."""
    yield from (f"user {owner}" for lock in LOCKS.iterdir() if (owner := lock.stat().st_uid) != os.getuid())
    for process in psutil.process_iter(["cmdline", "cwd", "uids"]):
        program, *words = [Path(word).name for word in process.info["cmdline"] or [""]]
        snakemake = program == "snakemake" or (program.startswith("python") and "snakemake" in words)
        # The directory is None if we may not see it.
        here = process.info["cwd"] in (None, os.getcwd())
        if snakemake and here and process.info["uids"].effective == os.getuid():
            yield f"process {process.pid}"


if LOCKS.is_dir() and any(LOCKS.iterdir()):
    holder = next(holders(), None)
    if holder is None:
        print("removing the lock of a killed run")
        shutil.rmtree(LOCKS)
    else:
        print(f"{LOCKS}: held by {holder}; if no Snakemake runs here, use `.venv/bin/snakemake --unlock`")
