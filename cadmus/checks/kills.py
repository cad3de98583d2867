"""Trainings that are killed again and again, held against one that is not.

The run is a tiny one on random programs, with so many checkpoints that a good part of the kills falls into
the writing of one.
"""

import json
import multiprocessing
import os
import random
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cadmus import config, isa
from cadmus.errors import Defect
from cadmus.model import WEIGHTS
from cadmus.programs import Programs, offsets_of
from cadmus.train.checkpoint import UNFINISHED, find_latest

STEPS = 60
PHASES = ("starting", "training", "writing a checkpoint", "exporting")
_PROCESSES = multiprocessing.get_context("forkserver")


class Survival(NamedTuple):
    """What came of the kills.

    Attributes:
        phases: how many kills fell into each of :data:`PHASES`.
        runs: how many runs they were spread over.
        different: what of the last run is not bit for bit that of the run without kills; empty if all is.
    """

    phases: Counter[str]
    runs: int
    different: str


def survive(kills: int, seed: int, directory: Path, done: Callable[[], object]) -> Survival:
    """Kill trainings at random moments, continue each to its end and compare what it ends in.

    One run is trained without a kill.  Then runs are started and killed with SIGKILL after a time drawn
    uniformly from the duration of the last one that was not, and continued after each kill; a run that comes
    to its end before all kills have happened is followed by another one.

    Args:
        kills: how many, over all runs.
        seed: decides the moments, as shares of the duration.
        directory: an empty one.
        done: called after each kill.

    Raises:
        Defect: a training ended with an error of its own.
    """
    # Each training is a fork of a server that has imported what a training needs.
    _PROCESSES.set_forkserver_preload(["cadmus.train.loop", "deepspeed.runtime.zero.muon.original_muon"])
    moments = random.Random(seed)
    # The first one waits for the server.
    _run(directory / "first")
    _, duration = _run(directory / "whole")
    phases: Counter[str] = Counter()
    runs = 0
    while phases.total() < kills:
        runs += 1
        killed = directory / f"killed-{runs}"
        while phases.total() < kills:
            fresh, started = not killed.exists(), time.time()
            ended, seconds = _run(killed, moments.uniform(0, duration))
            if ended:
                # On a machine that others use as well, the first duration may be far off.
                duration = seconds if fresh else duration
                break
            phases[_phase(killed, started)] += 1
            done()
        else:
            _run(killed)
        different = difference(directory / "whole", killed)
        if different:
            return Survival(phases, runs, different)
        shutil.rmtree(killed)
    return Survival(phases, runs, "")


def _run(directory: Path, limit: float | None = None) -> tuple[bool, float]:
    """Train, and kill the training after ``limit`` seconds.

    Returns:
        Whether it came to its end, and the seconds that it took.
    """
    directory.mkdir(exist_ok=True)
    began = time.perf_counter()
    process = _PROCESSES.Process(target=_train, args=(directory,))
    process.start()
    try:
        process.join(limit)
    finally:
        process.kill()
        process.join()
    if process.exitcode not in (0, -signal.SIGKILL):
        raise Defect(f"a training in {directory} ended with exit code {process.exitcode}")
    return process.exitcode == 0, time.perf_counter() - began


def _train(directory: Path) -> None:
    import torch
    from tqdm import tqdm

    from cadmus.train import loop
    from cadmus.train.data import TrainingSet

    # Its own is a semaphore of the system, which a killed process leaves behind.
    tqdm.set_lock(threading.RLock())
    # An interrupt is for the process that started this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Threads cost so small a model more than they save.
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    run = config.parse_config(
        {
            "name": "kills",
            "dataset": {"max_length": 31, "templates": {"random": {"train": 1}}},
            "model": {"layers": 2, "width": 32, "heads": 2, "mlp": 64},
            "train": {"steps": STEPS, "batch_size": 32, "checkpoint_every": 3},
        },
        "kills",
    )
    loop.train(
        run,
        lambda: [TrainingSet(random_programs(300, 4, 30), np.full(300, 3))],
        "random",
        directory / "checkpoints",
        directory / "model",
        directory / "metrics.jsonl",
        lambda line: None,
    )


def random_programs(count: int, low: int, high: int) -> Programs:
    """Uniform instructions, true or not; always the same ones.

    Args:
        count: of programs.
        low, high: fewest and most instructions of one.
    """
    generator = np.random.default_rng(3)
    symbols = np.array([ord(row.symbol) for row in isa.INSTRUCTIONS if row.symbol != isa.END], np.uint8)
    lengths = generator.integers(low, high + 1, count)
    return Programs(generator.choice(symbols, lengths.sum()), offsets_of(lengths))


def _phase(directory: Path, started: float) -> str:
    """Where a run started at a time of the clock was when it was killed, by what it left."""

    def touched(path: Path) -> bool:
        return path.exists() and path.stat().st_mtime >= started

    # It is written anew when a checkpoint has been loaded.
    if not touched(directory / "metrics.jsonl"):
        return "starting"
    checkpoints = directory / "checkpoints"
    if any(map(touched, checkpoints.glob(f"{UNFINISHED}*"))):
        return "writing a checkpoint"
    latest = find_latest(checkpoints)
    return "exporting" if latest is not None and latest.name == f"step-{STEPS:08d}" else "training"


def difference(one: Path, other: Path) -> str:
    """What is not bit for bit the same in two directories of runs; empty if all is."""
    if _losses(one) != _losses(other):
        return "the losses"
    first, second = ((directory / "model" / WEIGHTS).read_bytes() for directory in (one, other))
    return "" if first == second else "the weights"


def _losses(directory: Path) -> list[tuple[int, float]]:
    lines = (directory / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [(record["step"], record["loss"]) for record in map(json.loads, lines)]
