"""Shared by the tools: medians, JSON files of measurements, processes and all that they started."""

import argparse
import fcntl
import json
import os
import re
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from cadmus.store import commit, write_text
from cadmus.tools import cores, progress

ROOT = Path(__file__).parent.parent
Facts = dict[str, Any]
PATIENCE = 600
"""Seconds until a process counts as hanging: a busy machine may need one minute for what takes a second."""


def seconds_of(action: Callable[[], object]) -> float:
    """Return the wall-clock seconds of an action."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def median_seconds(actions: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Return the median seconds of each action.

    The actions take turns, so that other load on the machine affects all of them.
    """
    seconds: dict[str, list[float]] = {name: [] for name in actions}
    for _ in progress("repeats", range(repeats)):
        for name, action in actions.items():
            seconds[name].append(seconds_of(action))
    return {name: statistics.median(taken) for name, taken in seconds.items()}


@contextmanager
def exclusive() -> Iterator[None]:
    """Wait until no other process is in this block, if the variable GPU_LOCK names a file.

    Processes that measure one GPU can start and compile at the same time, and take turns on it.
    """
    path = os.environ.get("GPU_LOCK")
    if not path:
        yield
        return
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def flat(facts: Facts, rows: Mapping[str, Facts]) -> Facts:
    """Return settings and the cells of a table as one object, the cells by ``ROW_COLUMN``."""
    return facts | {f"{row}_{column}": value for row, of in rows.items() for column, value in of.items()}


def parser(description: str | None, output: bool = False) -> argparse.ArgumentParser:
    """Return a parser, with the option of :func:`report` if wanted."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawTextHelpFormatter)
    if output:
        made.add_argument("--output", type=Path, help="JSON file for the result, which is also printed")
    return made


def report(result: Facts, output: Path | None) -> None:
    """Print a result as JSON, with commit and machine, and write it to ``output``, if there is one."""
    processor = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    machine = {"commit": commit(), "cores": cores(), "processor": processor[1] if processor else ""}
    text = json.dumps(machine | result, indent=1) + "\n"
    if output:
        write_text(output, text)
    print(text, end="")


@contextmanager
def running(command: list[str], log: Path, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process in a session of its own, with its output in ``log``; kill it after the block."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True, **options
        )
    try:
        yield process
    finally:
        kill_tree(process)


def wait_for(condition: Callable[[], object], what: str, pause: float = 0.2) -> None:
    """Wait until ``condition()`` is true; raises TimeoutError after :data:`PATIENCE`."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {PATIENCE} s for {what}")
        time.sleep(pause)


def kill_tree(process: subprocess.Popen[Any]) -> None:
    """Kill a process, all that it started, and the rest of its session if it leads one, and wait."""
    found: set[psutil.Process] = set()
    while new := set(_tree(process.pid)) - found:
        for each in new:
            with suppress(psutil.NoSuchProcess):
                # A stopped process starts no other one.
                each.suspend()
        found |= new
    for each in found:
        with suppress(psutil.NoSuchProcess):
            each.kill()
    process.wait()
    psutil.wait_procs(found)


def _tree(pid: int) -> Iterator[psutil.Process]:
    for each in psutil.process_iter():
        with suppress(ProcessLookupError, psutil.NoSuchProcess):
            if os.getsid(each.pid) == pid or pid in (each.pid, *(above.pid for above in each.parents())):
                yield each
