"""Kill the workflow at random moments, restart it, and compare its files with an undisturbed run.

Each kill hits Snakemake with all its processes or, every other time, one process of a job. Snakemake is
unlocked and restarted after each. At the end, all files must equal those of the undisturbed run, except for
times, and no other file may be left. If a run ends before all kills have happened, another one starts.
Exits with 1 if a file differs.

python -m dev.kills --kills 100 --output docs/results/kills.json
python -m dev.kills --config tests/tiny.yaml --target results/tiny/model/meta.json
"""

import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from cadmus.tools import progress
from dev import measure
from dev.measure import ROOT, Facts, kill_tree

STARTS = 4
"""Longest time until a kill, as a multiple of the time that Snakemake takes to start."""
CLOCKS = ("seconds", "tokens_per_second")
"""Fields of JSON files that depend on the speed of the machine."""
TIMED = {"benchmarks", "logs"}
"""Directories of a run whose files hold times; only their names are compared."""


def main() -> None:
    options = measure.parser(__doc__)
    options.add_argument("--kills", type=int, default=50, help="number of kills, over all runs")
    options.add_argument("--seed", type=int, default=0, help="of the moments")
    options.add_argument("--config", type=Path, default=ROOT / "tests/tiny.yaml", help="config of the run")
    options.add_argument("--target", action="append", default=[], help="file to make; all by default")
    given = options.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kills-") as directory:
        result = survive(given.config, given.target, given.kills, given.seed, Path(directory))
    result["seconds"] = round(time.monotonic() - started)
    measure.report(result, given.output)
    sys.exit(1 if result["different"] else 0)


def survive(config: Path, targets: list[str], kills: int, seed: int, directory: Path) -> Facts:
    """Return the numbers of kills and of compared files, and the files of the last run that differ."""
    draws = random.Random(seed)
    workflow = Workflow(config, targets)
    whole = directory / "whole"
    workflow.run(whole)
    # Nothing is left to do.
    start = measure.seconds_of(lambda: workflow.run(whole))
    done = {"everything": 0, "jobs": 0}
    runs, files, different = 0, 0, []
    with progress("kills", total=kills) as bar:
        while bar.n < kills and not different:
            runs += 1
            killed = directory / f"killed-{runs}"
            while bar.n < kills:
                kind = "jobs" if bar.n % 2 else "everything"
                if workflow.run(killed, draws.uniform(0, STARTS * start), draws if kind == "jobs" else None):
                    break
                done[kind] += 1
                bar.update()
            workflow.run(killed)
            files, different = difference(whole / "results", killed / "results")
            shutil.rmtree(killed)
    named = {"kills": sum(done.values()), "seed": seed, "config": config.name, "targets": targets}
    return {**named, **done, "runs": runs, "files": files, "different": different}


class Workflow:
    """Snakemake on a config of this checkout, in directories of its own."""

    def __init__(self, config: Path, targets: list[str]) -> None:
        self.command = [
            *(sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "workflow/Snakefile")),
            *("--cores", "2", "--rerun-incomplete", "--configfile", str(config.resolve())),
        ]
        self.targets = ["--", *targets] if targets else []

    def run(self, directory: Path, seconds: float | None = None, draws: random.Random | None = None) -> bool:
        """Run the workflow; after some seconds kill it or, with ``draws``, one process of a job.

        Returns:
            Whether it came to its end.
        """
        if any((directory / ".snakemake/locks").glob("*")):
            with self._started(directory, "--unlock") as process:
                process.wait()
        with self._started(directory) as process:
            try:
                code = process.wait(seconds)
            except subprocess.TimeoutExpired:
                jobs = psutil.Process(process.pid).children(recursive=True)
                if draws and jobs:
                    with suppress(psutil.NoSuchProcess):
                        draws.choice(jobs).kill()
                    # Snakemake finishes the other jobs.
                    process.wait()
                return False
        if code:
            log = (directory / "snakemake.log").read_text(errors="replace")
            raise RuntimeError(f"Snakemake ended with exit code {code}:\n{log[-2000:]}")
        return True

    @contextmanager
    def _started(self, directory: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
        """Start Snakemake in a session of its own; all its processes are killed after the block."""
        temporary = directory / "tmp"
        temporary.mkdir(parents=True, exist_ok=True)
        with (directory / "snakemake.log").open("wb") as log:
            process = subprocess.Popen(
                [*self.command, *options, *self.targets],
                cwd=directory,
                env={**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": str(ROOT)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            kill_tree(process)


def difference(one: Path, other: Path) -> tuple[int, list[str]]:
    """Compare two directories of results, clocks aside.

    Returns:
        Number of files of the first, and the paths that differ or that only one of them has.
    """
    first, second = (
        {str(path.relative_to(directory)): path for path in directory.rglob("*") if not path.is_dir()}
        for directory in (one, other)
    )
    different = first.keys() ^ second.keys()
    for name in first.keys() & second.keys():
        if TIMED.isdisjoint(Path(name).parts) and _timeless(first[name]) != _timeless(second[name]):
            different.add(name)
    return len(first), sorted(different)


def _timeless(path: Path) -> object:
    """Return the contents of a file, without the fields that depend on the speed of the machine."""
    data = path.read_bytes()
    if path.suffix in (".json", ".jsonl"):
        values = map(json.loads, data.splitlines() if path.suffix == ".jsonl" else [data])
        # The seal changes with the times.
        left_out = {*CLOCKS, "cadmus"}
        return [
            {name: of[name] for name in of.keys() - left_out} if isinstance(of, dict) else of for of in values
        ]
    if path.name == "README.md":
        # The card of a model says how long and how fast it was trained.
        return re.sub(rb"[\d.,e+-]+ (s on|tokens/s|FLOP/s)", rb"\1", data)
    return data


if __name__ == "__main__":
    main()
