"""Kill the workflow at random moments, restart it, and compare its files with an undisturbed run.

Each kill hits Snakemake with all its processes or, every other time, one process of a job. Snakemake is
unlocked and restarted after each. At the end, all files must equal those of the undisturbed run, except for
times, and no other file may be left. If a run ends before all kills have happened, another one starts.
Exits with 1 if a file differs.

python -m dev.kills --kills 100 --output docs/results/kills.json
python -m dev.kills --config tests/tiny.yaml --target results/tiny/model/meta.json
"""

import os
import random
import re
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psutil

from cadmus.tools import progress
from dev import measure
from dev.measure import ROOT, Facts

STARTS = 4
"""Longest time until a kill, as a multiple of the time that Snakemake takes to start."""
TIMED = {"benchmarks", "logs"}
"""Directories of a run whose files hold times; only their names are compared."""
CLOCKS = re.compile(
    rb'"(seconds|tokens_per_second)": [\d.e+-]+|"(commit|seal)": "\w*"|[\d.,e+-]+ (s on|tokens/s|FLOP/s)'
)
"""Parts of JSON files and cards that depend on the moment and speed of a run; the seal changes with them."""


def main() -> None:
    options = measure.parser(__doc__, output=True)
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
    command = [
        *(sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "workflow/Snakefile")),
        *("--cores", "2", "--rerun-incomplete", "--configfile", str(config.resolve()), "--", *targets),
    ]
    whole = directory / "whole"
    run(command, whole)
    # Nothing is left to do.
    start = measure.seconds_of(lambda: run(command, whole))
    done, runs, files, different = 0, 0, 0, []
    with progress("kills", total=kills) as bar:
        while done < kills and not different:
            runs += 1
            killed = directory / f"killed-{runs}"
            # Every other time, one process of a job.
            while done < kills and not run(
                command, killed, draws.uniform(0, STARTS * start), draws if done % 2 else None
            ):
                done += 1
                bar.update()
            run(command, killed)
            files, different = difference(whole / "results", killed / "results")
    counts = {"everything": done - done // 2, "jobs": done // 2, "runs": runs, "files": files}
    named = {"kills": done, "seed": seed, "config": config.name, "targets": targets}
    return {**named, **counts, "different": different}


def run(
    command: list[str], directory: Path, seconds: float | None = None, draws: random.Random | None = None
) -> bool:
    """Run Snakemake; after some seconds kill it or, with ``draws``, one process of a job.

    Returns whether it came to its end.
    """
    log, temporary = directory / "snakemake.log", directory / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": str(ROOT)}
    options = {"cwd": directory, "env": environment}
    if any((directory / ".snakemake/locks").glob("*")):
        with measure.running([*command[:3], "--unlock", *command[3:]], log, **options) as process:
            process.wait()
    with measure.running(command, log, **options) as process:
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
        raise RuntimeError(
            f"Snakemake ended with exit code {code}:\n{log.read_text(errors='replace')[-2000:]}"
        )
    return True


def difference(one: Path, other: Path) -> tuple[int, list[str]]:
    """Return the number of files of the first directory, and those in which the two differ, clocks aside."""
    first, second = _timeless(one), _timeless(other)
    return len(first), sorted({name for name, _ in first.items() ^ second.items()})


def _timeless(directory: Path) -> dict[str, bytes]:
    """Return the files below a directory and their contents, without :data:`CLOCKS`."""
    contents = {}
    for path in directory.rglob("*"):
        if not path.is_dir():
            name = path.relative_to(directory)
            data = path.read_bytes() if TIMED.isdisjoint(name.parts) else b""
            has_clocks = path.suffix in (".json", ".jsonl") or path.name == "README.md"
            contents[str(name)] = CLOCKS.sub(b"", data) if has_clocks else data
    return contents


if __name__ == "__main__":
    main()
