"""Rates of a training, completions and probes beside other processes that want the cores."""

import json
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch

from cadmus import config
from cadmus.bench import Facts, Measured
from cadmus.common.files import temporary_directory
from cadmus.config.evaluation import Probe
from cadmus.dataset.manifest import write_manifest
from cadmus.dataset.shards import plan, write_shard
from cadmus.errors import InputError
from cadmus.evaluate.comparisons import sample_comparisons
from cadmus.experiments.probe import prefix_ids, score
from cadmus.model.inference import Cadmus
from cadmus.tools import cores, progress
from cadmus.train.paths import RunPaths

BUSY = (0, 1, 2)
"""Numbers of processes that compute beside the measured one."""
REPEATS = 3
SECONDS = 10.0
"""Length of a measurement."""
SETTLE = 2.0
"""Seconds after a change of the busy processes in which nothing is measured."""
FIRST_STEPS = 5
"""Steps of a training before anything is measured."""
PROMPTS = 500
"""Comparisons that are completed at once."""
PROGRAMS = 2_000
"""Training programs per template; more would only be read for longer."""
PROBED = Probe(train_programs=1_000, validation_programs=200, test_programs=200, inverse_regularisation=[0.1])
Rate = Callable[[float], float]
"""Works for some seconds and returns the work per second."""


def bench_busy(path: Path, directory: Path) -> Measured:
    """Measure the rates of work alone and beside processes that never wait, medians of :data:`REPEATS`.

    The fair share of w threads beside b busy ones on c cores is the part of its rate alone that is left if
    all threads get the same time.

    Args:
        path: config to train, on a small dataset of its templates.
        directory: model to evaluate and to probe.

    Raises:
        InputError: ``directory`` is not a model export, or the training fails.
    """
    run, model = config.load_config(path), Cadmus.load(directory)
    rng = np.random.default_rng(0)
    dataset = config.Dataset()
    count = PROBED.train_programs + PROBED.validation_programs + PROBED.test_programs
    programs, targets = sample_comparisons(
        rng, count, dataset.values, dataset.eval_fraction, "evaluate.probe"
    )
    states = np.concatenate([states[-1] for _, states in model.hidden_states(programs)])
    features = torch.from_numpy(np.ascontiguousarray(states.swapaxes(0, 1)))
    prompts = programs.prefixes(programs.lengths - 1).take(np.arange(PROMPTS))
    prefixes = prefix_ids(programs)
    measured = {
        "evaluation": _rates(_repeated(lambda: model.complete(prompts))),
        "probes": _rates(_repeated(lambda: score(features, targets["x"], prefixes, PROBED))),
    }
    with temporary_directory("cadmus-bench-") as folder, _training(run, folder) as rate:
        measured["training"] = _rates(rate)
    threads, available = torch.get_num_threads(), cores()
    rows: dict[str, Facts] = {}
    for name, rates in measured.items():
        rows[name] = {"alone": float(f"{rates[0]:.3g}")}
        for busy in BUSY[1:]:
            share, fair = rates[busy] / rates[0], fair_share(threads, busy, available)
            rows[name] |= {f"beside_{busy}": round(share, 3), f"of_fair_{busy}": round(share / fair, 3)}
    shares: Facts = {f"fair_{busy}": round(fair_share(threads, busy, available), 3) for busy in BUSY[1:]}
    return Measured({"cores": available, "threads": threads, "repeats": REPEATS, **shares}, rows)


def fair_share(threads: int, busy: int, available: int) -> float:
    """Return the part of its rate alone that remains for some threads beside busy ones, on some cores."""
    alone = min(threads, available)
    return min(alone, available * threads / max(threads + busy, available)) / alone


def _rates(rate: Rate) -> dict[int, float]:
    """Return the median rate beside each number of busy processes, which take turns."""
    found: dict[int, list[float]] = {busy: [] for busy in BUSY}
    for _ in progress("repeats", range(REPEATS)):
        for busy, rates in found.items():
            with _busy(busy):
                time.sleep(SETTLE)
                rates.append(rate(SECONDS))
    return {busy: statistics.median(rates) for busy, rates in found.items()}


@contextmanager
def _busy(count: int) -> Iterator[None]:
    """Run some processes that never wait, each in a session of its own, as those of other users are."""
    command = [sys.executable, "-c", "while True: pass"]
    started = [subprocess.Popen(command, start_new_session=True) for _ in range(count)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def _repeated(action: Callable[[], object]) -> Rate:
    """Return the rate of an action that is repeated, after a first time for what it compiles and caches."""
    action()

    def rate(seconds: float) -> float:
        start, done = time.perf_counter(), 0
        while (taken := time.perf_counter() - start) < seconds:
            action()
            done += 1
        return done / taken

    return rate


@contextmanager
def _training(run: config.Config, folder: Path) -> Iterator[Rate]:
    """Train in processes of their own, as ``cadmus train`` does, and yield the rate in tokens."""
    values = run.model_dump()
    values["train"] |= {"steps": 1_000_000, "checkpoint_every": 1_000_000, "verdict": {"fraction": 0.0}}
    values["dataset"] |= {"validation": 100, "test": 100}
    for template in values["dataset"]["templates"].values():
        template["train"] = min(template["train"], PROGRAMS)
    path = folder / "config.yaml"
    paths = RunPaths(folder / "checkpoints", folder / "model", folder / "metrics.jsonl")
    written = paths.partial().metrics
    path.write_text(config.as_yaml(values))
    run = config.load_config(path)
    for shard in progress("shards", plan(run), unit="shard"):
        write_shard(run, folder / "dataset", shard.template, shard.split, shard.number)
    write_manifest(run, folder / "dataset")
    options = {"checkpoints": paths.checkpoints, "output": paths.export, "metrics": paths.metrics}
    command = [sys.executable, "-m", "cadmus", "train", f"--config={path}", f"--dataset={folder / 'dataset'}"]
    command += [f"--{name}={value}" for name, value in options.items()]

    def tokens() -> tuple[float, float]:
        """Return the tokens up to the last step, and the seconds in which the steps were made."""
        step = json.loads(written.read_text().splitlines()[-1])
        return step["tokens"], step["seconds"]

    def rate(seconds: float) -> float:
        before = tokens()
        time.sleep(seconds)
        after = tokens()
        return (after[0] - before[0]) / (after[1] - before[1])

    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        while not written.exists() or written.read_bytes().count(b"\n") < FIRST_STEPS:
            if process.poll() is not None:
                raise InputError(f"{' '.join(command)}: {(folder / 'log').read_text().splitlines()[-1]}")
            time.sleep(0.1)
        yield rate
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
