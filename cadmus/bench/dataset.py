"""Speed of sampling a whole dataset, with one process per shard as in the workflow."""

import resource
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from cadmus.bench import Facts, Measured
from cadmus.common.files import temporary_directory
from cadmus.config import SPLITS, load_config
from cadmus.dataset.shards import plan
from cadmus.errors import InputError
from cadmus.tools import progress


def bench_dataset(config: Path) -> Measured:
    """Measure the CPU seconds of the shards and the manifest of a config, and of starting a process.

    Each shard is sampled by its own process, one after another, in a temporary folder.  CPU seconds (user and
    system) depend little on other load.  Shards of validation and test take hardly longer than their start,
    so their median is taken as the start of every shard.

    Raises:
        InputError: The config is invalid, its shards take no longer than their start, or a process failed.
    """
    run = load_config(config)
    shards = plan(run)
    seconds: dict[tuple[str, str], list[float]] = defaultdict(list)
    with temporary_directory("cadmus-bench-") as folder:

        def measured(command: str, *options: str) -> float:
            return _seconds("-m", "cadmus", command, "--config", str(config), str(folder), *options)

        for shard in progress("shards", shards, unit="shard"):
            options = "--template", shard.template, "--split", shard.split, "--number", str(shard.number)
            seconds[shard.template, shard.split].append(measured("shard", *options))
        manifest = measured("manifest")
    train, *others = SPLITS
    start = statistics.median(
        second for (_, split), taken in seconds.items() if split in others for second in taken
    )
    torch_start = statistics.median(
        _seconds("-c", "import torch, cadmus.evaluate.regressions") for _ in range(5)
    )
    programs = sum(shard.rows for shard in shards)
    rows: dict[str, Facts] = {
        template: {
            "per_second": _rate(sum(of.rows for of in shards if of[:2] == (template, split)), taken, start)
        }
        for (template, split), taken in seconds.items()
        if split == train
    }
    facts: Facts = {
        "programs": programs,
        "shards": len(shards),
        "start_seconds": round(start, 2),
        "start_torch_seconds": round(torch_start, 2),
        "seconds": round(sum(map(sum, seconds.values())) + manifest, 1),
    }
    rows["manifest"] = {"per_second": _rate(programs, [manifest], start)}
    return Measured(facts, rows)


def _rate(programs: float, seconds: list[float], start: float) -> int:
    """Return programs per second, without the start of the processes."""
    beyond = sum(seconds) - start * len(seconds)
    if beyond < start:
        raise InputError("the shards of the config take no longer than their start; measure a larger config")
    return round(programs / beyond)


def _seconds(*arguments: str) -> float:
    """Run Python and return the CPU seconds of the process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise InputError((done.stderr.strip().splitlines() or ["a process failed"])[-1])
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
