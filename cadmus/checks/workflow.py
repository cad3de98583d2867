"""Kill the workflow at random moments, restart it, and compare its files with an undisturbed run.

Snakemake works in directories of its own, not in the results of the checkout.
"""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from cadmus.common.interrupts import descendants, process_state, session_of
from cadmus.errors import Defect, InputError

STARTS = 4
"""Longest time until a kill, as a multiple of the time that Snakemake takes to start."""
CLOCKS = ("seconds", "tokens_per_second")
"""Fields of JSON files that depend on the speed of the machine."""
TIMED = {"benchmarks", "logs"}
"""Directories of a run whose files hold times; only their names are compared."""


class Outcome(NamedTuple):
    """The result of :func:`survive`.

    Attributes:
        everything: kills of Snakemake and all its children.
        jobs: kills of one process of a job.
        runs: runs of the workflow that were killed.
        files: files of a run that were compared.
        different: files of the last run that differ from the undisturbed run, are missing or left over.
    """

    everything: int
    jobs: int
    runs: int
    files: int
    different: list[str]


def survive(
    config: Path,
    root: Path,
    kills: int,
    seed: int,
    directory: Path,
    done: Callable[[], object],
    targets: tuple[str, ...] = (),
) -> Outcome:
    """Kill runs of the workflow at random moments, restart each until it ends, and compare the files.

    Each kill hits Snakemake and all processes below it or, every other time, one process of a job. The time
    until a kill is uniform up to :data:`STARTS` times the time that Snakemake takes to start. If a run ends
    before all kills have happened, another run follows.

    Args:
        config: config of the run.
        root: the checkout.
        kills: number of kills, over all runs.
        seed: determines the moments, as fractions.
        directory: an empty directory.
        done: called after each kill.
        targets: files to make; all by default.

    Raises:
        Defect: an undisturbed run failed, or a killed one left processes.
    """
    draws = random.Random(seed)
    workflow = _Workflow(config.resolve(), root, targets)
    whole = directory / "whole"
    workflow.finish(whole)
    start = workflow.start_seconds(whole)
    counts = {True: 0, False: 0}
    runs, files = 0, 0
    different: list[str] = []
    while sum(counts.values()) < kills and not different:
        runs += 1
        killed = directory / f"killed-{runs}"
        while sum(counts.values()) < kills:
            everything = sum(counts.values()) % 2 == 0
            if workflow.killed(killed, draws.uniform(0, STARTS * start), everything, draws):
                break
            counts[everything] += 1
            done()
        workflow.finish(killed)
        files, different = difference(whole / "results", killed / "results")
        shutil.rmtree(killed)
    return Outcome(counts[True], counts[False], runs, files, different)


class _Workflow:
    """Snakemake on a config of a checkout."""

    def __init__(self, config: Path, root: Path, targets: tuple[str, ...]) -> None:
        snakefile = root / "workflow/Snakefile"
        if not snakefile.is_file():
            raise InputError(f"{snakefile}: no such file; start the command in a checkout of Cadmus")
        self.command = [
            *(sys.executable, "-m", "snakemake", "--snakefile", str(snakefile.resolve())),
            *("--cores", "2", "--rerun-incomplete", "--configfile", str(config)),
        ]
        self.targets = ["--", *targets] if targets else []

    def finish(self, directory: Path) -> None:
        """Run the workflow to its end.

        Raises:
            Defect: it fails.
        """
        self._unlock(directory)
        with self._started(directory) as process:
            code = process.wait()
        if code:
            raise Defect(f"{directory}: Snakemake ended with exit code {code}:\n{_end(directory)}")

    def killed(self, directory: Path, seconds: float, everything: bool, draws: random.Random) -> bool:
        """Run the workflow and kill it, or one process of a job, after some seconds.

        Returns:
            True if it ended before.

        Raises:
            Defect: it failed before.
        """
        self._unlock(directory)
        with self._started(directory) as process:
            try:
                code = process.wait(seconds)
            except subprocess.TimeoutExpired:
                jobs = [] if everything else descendants(process.pid)
                if not jobs:
                    return False
                with suppress(ProcessLookupError):
                    os.kill(draws.choice(jobs), signal.SIGKILL)
                # It finishes the other jobs; if only a process ended that no longer mattered, all of them.
                process.wait()
                return False
        if code:
            raise Defect(f"{directory}: Snakemake ended with exit code {code}:\n{_end(directory)}")
        return True

    def start_seconds(self, directory: Path) -> float:
        """Return the seconds that Snakemake takes to find that a finished run has nothing to do."""
        began = time.perf_counter()
        self.finish(directory)
        return time.perf_counter() - began

    def _unlock(self, directory: Path) -> None:
        locks = directory / ".snakemake/locks"
        if locks.is_dir() and any(locks.iterdir()):
            with self._started(directory, "--unlock") as process:
                process.wait()

    @contextmanager
    def _started(self, directory: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
        """Start Snakemake in a session of its own; all its processes are killed after the block."""
        temporary = directory / "tmp"
        temporary.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, "TMPDIR": str(temporary)}
        with (directory / "snakemake.log").open("wb") as log:
            process = subprocess.Popen(
                [*self.command, *options, *self.targets],
                cwd=directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            kill_tree(process)


def kill_tree(process: subprocess.Popen[bytes]) -> None:
    """Kill the leader of a session, the rest of the session and all descendants; wait for their end."""
    stopped: set[int] = set()
    while new := _members(process.pid) - stopped:
        # A stopped process starts no other one.
        for pid in new:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        stopped |= new
    for pid in stopped:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()
    while any((state := process_state(pid)) is not None and state[0] not in "ZX" for pid in stopped):
        time.sleep(0.01)


def _members(leader: int) -> set[int]:
    alive = process_state(leader)
    return {*session_of(leader), *([leader, *descendants(leader)] if alive and alive[0] not in "ZX" else [])}


def _end(directory: Path) -> str:
    return (directory / "snakemake.log").read_text(errors="replace")[-2000:]


def difference(one: Path, other: Path) -> tuple[int, list[str]]:
    """Compare two directories of results, clocks aside.

    Returns:
        Number of files of the first, and the paths that differ or that only one of them has.
    """
    files = [
        {str(path.relative_to(directory)): path for path in directory.rglob("*") if not path.is_dir()}
        for directory in (one, other)
    ]
    names = files[0].keys() | files[1].keys()
    different = [
        name
        for name in names
        if not all(name in of for of in files)
        or (
            not TIMED & set(Path(name).parts)
            and _without_clocks(files[0][name]) != _without_clocks(files[1][name])
        )
    ]
    return len(files[0]), sorted(different)


def _without_clocks(path: Path) -> object:
    """Return the contents of a file, without the fields that depend on the speed of the machine."""
    data = path.read_bytes()
    if path.suffix == ".json":
        return _fields(json.loads(data))
    if path.suffix == ".jsonl":
        return [_fields(json.loads(line)) for line in data.splitlines()]
    if path.name == "README.md":
        # The card of a model says how long and how fast it was trained.
        return re.sub(rb"[\d.,e+-]+ (s on|tokens/s|FLOP/s)", rb"\1", data)
    return data


def _fields(record: object) -> object:
    if not isinstance(record, dict):
        return record
    return {name: value for name, value in record.items() if name not in CLOCKS}
