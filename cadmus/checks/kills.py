"""Kill training runs with SIGKILL, resume them, and compare the results with an uninterrupted run.

The run is tiny and trains on random programs. It saves checkpoints so often that many kills hit the writing
of one.
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
from multiprocessing import forkserver
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cadmus import config
from cadmus.common import interrupts
from cadmus.errors import Defect
from cadmus.model import WEIGHTS
from cadmus.programs import Samples
from cadmus.templates.random import random_programs
from cadmus.train.paths import find_checkpoints, step_paths

STEPS = 60
PHASES = ("starting", "training", "writing a checkpoint", "exporting")
_PROCESSES = multiprocessing.get_context("forkserver")


class Survival(NamedTuple):
    """The result of :func:`survive`.

    Attributes:
        phases: number of kills in each of :data:`PHASES`.
        runs: number of runs that were killed.
        different: results of the last run that are not bit-identical to the uninterrupted run, or empty.
    """

    phases: Counter[str]
    runs: int
    different: str


def survive(kills: int, seed: int, directory: Path, done: Callable[[], object]) -> Survival:
    """Kill training runs at random moments, resume each to its end and compare the results.

    One run trains uninterrupted. Further runs are killed and resumed. The time until a kill is uniform up to
    the duration of an uninterrupted run. If a run ends before all kills have happened, another run follows.

    Args:
        kills: number of kills, over all runs.
        seed: determines the moments, as fractions of the duration.
        directory: an empty directory.
        done: called after each kill.

    Raises:
        Defect: a training run failed.
    """
    # Each run is forked from a server that has imported the training code.
    _PROCESSES.set_forkserver_preload(["cadmus.train.loop", "deepspeed.runtime.zero.muon.original_muon"])
    with interrupts.held_back():
        forkserver.ensure_running()
    moments = random.Random(seed)
    # The first run waits for the server, so its duration is not representative.
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
                # On a shared machine the first duration may be far off.
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
    """Train, and kill the training process after ``limit`` seconds.

    Returns:
        Whether training finished, and its duration in seconds.
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
        raise Defect(f"{directory}: training ended with exit code {process.exitcode}")
    return process.exitcode == 0, time.perf_counter() - began


def _train(directory: Path) -> None:
    import torch
    from tqdm import tqdm

    from cadmus.train import loop
    from cadmus.train.paths import RunPaths

    # The default lock is a system semaphore, which a killed process never releases.
    tqdm.set_lock(threading.RLock())
    # A model this small is faster with one thread.
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
        lambda templates: [Samples(random_programs(300, 4, 30), np.full(300, 3))],
        "random",
        RunPaths(directory / "checkpoints", directory / "model", directory / "metrics.jsonl"),
        lambda line: None,
    )


def _phase(directory: Path, started: float) -> str:
    """Return the phase in which a run that started at the time ``started`` was killed, from its files."""

    def touched(path: Path) -> bool:
        return path.exists() and path.stat().st_mtime >= started

    # Training rewrites the metrics once a checkpoint has been loaded.
    if not touched(directory / "metrics.jsonl"):
        return "starting"
    checkpoints = directory / "checkpoints"
    complete = find_checkpoints(checkpoints)
    if any(touched(path) for path in step_paths(checkpoints) if path not in complete):
        return "writing a checkpoint"
    return "exporting" if complete and complete[-1].name == f"step-{STEPS:08d}" else "training"


def difference(one: Path, other: Path) -> str:
    """Return which results of two runs are not bit-identical: losses, weights or empty."""
    if _losses(one) != _losses(other):
        return "the losses"
    first, second = ((directory / "model" / WEIGHTS).read_bytes() for directory in (one, other))
    return "" if first == second else "the weights"


def _losses(directory: Path) -> list[tuple[int, float]]:
    lines = (directory / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [(record["step"], record["loss"]) for record in map(json.loads, lines)]
