"""The speed of sampling a whole dataset, one process a shard as in the workflow."""

import resource
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from cadmus.bench import Measured
from cadmus.common.progress import progress
from cadmus.config import SPLITS, load_config
from cadmus.dataset.shards import plan
from cadmus.errors import InputError


def bench_dataset(config: Path) -> Measured:
    """Processor seconds of the shards and of the manifest of a config, and of starting a process.

    Every shard is made by a process of its own, one after another, in a temporary folder.  Seconds are those
    of the processor (user and system), which other work on the machine changes little.  A shard of
    validation or test takes hardly longer than its start, so the median of these is taken for the start of
    every shard.

    Raises:
        InputError: the config is wrong, its shards take no longer than their start, or a process failed.
    """
    run = load_config(config)
    shards = plan(run)
    seconds: dict[tuple[str, str], list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:

        def measured(command: str, *options: str) -> float:
            return _seconds("-m", "cadmus", command, "--config", str(config), folder, *options)

        for shard in progress("shards", shards, unit="shard"):
            options = "--template", shard.template, "--split", shard.split, "--number", str(shard.number)
            seconds[shard.template, shard.split].append(measured("shard", *options))
        manifest = measured("manifest")
    train, *others = SPLITS
    start = statistics.median(
        second for (_, split), of_chain in seconds.items() if split in others for second in of_chain
    )
    result: Measured = {
        "programs": sum(shard.rows for shard in shards),
        "shards": len(shards),
        "start_seconds": round(start, 2),
    }
    for (template, split), of_chain in seconds.items():
        if split == train:
            rows = sum(shard.rows for shard in shards if shard[:2] == (template, split))
            result[f"{template}_per_second"] = _rate(rows, of_chain, start)
    torch_start = statistics.median(
        _seconds("-c", "import torch, cadmus.evaluate.regressions") for _ in range(5)
    )
    result["manifest_per_second"] = _rate(result["programs"], [manifest], start)
    result["start_torch_seconds"] = round(torch_start, 2)
    result["seconds"] = round(sum(map(sum, seconds.values())) + manifest, 1)
    return result


def _rate(programs: float, seconds: list[float], start: float) -> int:
    """Programs a second of processes, their start left out."""
    beyond = sum(seconds) - start * len(seconds)
    if beyond < start:
        raise InputError("the shards of the config take no longer than their start; measure a larger one")
    return round(programs / beyond)


def _seconds(*arguments: str) -> float:
    """Processor seconds of a process of this Python."""

    def spent() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    before = spent()
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True)
    if done.returncode:
        raise InputError((done.stderr.strip().splitlines() or ["a process failed"])[-1])
    return spent() - before
