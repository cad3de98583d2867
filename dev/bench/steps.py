"""Whole steps of real trainings, measured in their ranks: where the time goes, and how fast it is.

The programs are true ones of the config. Nothing is asked of them: a model after few steps writes longer
completions than a trained one, so sampling would be measured wrongly.

``python -m dev.bench.steps CONFIG DIRECTORY RANKS`` leaves facts.json and profile.txt in DIRECTORY.
"""

import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from functools import partial, wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import yaml

from cadmus import config
from cadmus.dataset.sampler import sample
from cadmus.model.export import Trained, read_metadata_as
from cadmus.programs import Samples
from cadmus.train import checkpoint, compiling, engine, loader, loop, muon, packing
from cadmus.train.loop import Launched
from cadmus.train.paths import RunPaths
from cadmus.train.ranks import count_ranks, is_first, run_ranks
from dev.measure import ROOT, Facts, exclusive, seconds_of

STEPS, WARMUP, PROFILED = 120, 20, 3
"""Steps; the first, which compile and allocate, and the last, under a profiler, are not measured."""
ROWS = 40
"""Of the profile: operations that take the most time."""
PROGRAMS = 100_000
PARTS = {
    "batch": (loader.Loader, "load"),
    "waiting": (loader.Prefetcher, "take"),
    "copying": (packing.PackedBatch, "to"),
    "forward": (loop, "forward"),
    "backward": (engine, "backward"),
    "optimizer": (muon.Muon, "step"),
    "newton_schulz": (muon, "orthogonalize"),
    "collectives": (torch.distributed.Work, "wait"),
}
"""Functions timed in a step. The optimizer contains Newton-Schulz; the others, the collectives. For a GPU,
workers load the batches; this process only takes them."""


def train_steps(run: config.Config, ranks: int | None = None) -> Facts:
    """Train :data:`STEPS` steps of a config, as ``cadmus train`` does; return the first rank's measurements.

    There are as many ranks as ``cadmus train`` would start, unless ``ranks`` says otherwise.
    """
    ranks = ranks or count_ranks(run.train)
    with TemporaryDirectory(prefix="cadmus-steps-") as name:
        (Path(name) / "run.yaml").write_text(yaml.safe_dump(run.model_dump()))
        command = [sys.executable, "-m", "dev.bench.steps", f"{name}/run.yaml", name, str(ranks)]
        subprocess.run(command, cwd=ROOT, check=True, stdout=sys.stderr)
        return json.loads((Path(name) / "facts.json").read_text())


def start(path: Path, directory: Path, ranks: int) -> int:
    """Measure the steps of a config with some ranks, one of them in this process."""
    directory.mkdir(parents=True, exist_ok=True)
    _prepare(config.load_config(path), directory, ranks)
    if ranks > 1:
        return run_ranks([sys.executable, "-m", "dev.bench.steps", str(directory)], ranks)
    main(directory)
    return 0


def _prepare(run: config.Config, directory: Path, ranks: int) -> None:
    """Write the config of the steps to measure to a directory."""
    values = run.model_dump()
    # The ranks share the batch equally.
    size = run.train.batch_size - run.train.batch_size % ranks
    values["train"] |= {"steps": STEPS, "ranks": ranks, "checkpoint_every": STEPS, "batch_size": size}
    values["train"]["reinforcement"]["fraction"] = 0
    # As in the whole training.
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    values["train"]["compile"] = compiling.pays(run, device)
    (directory / "config.yaml").write_text(yaml.safe_dump(values))


def main(directory: Path) -> None:
    """Train as one of the ranks of :func:`train_steps`."""
    run = config.load_config(directory / "config.yaml")
    taken: dict[str, list[float]] = {name: [0.0] * (STEPS + 1) for name in PARTS}
    compiling.WORTH = 0
    measured: Facts = {}
    step, profiler = [0], torch.profiler.profile()
    for name, (owner, function) in PARTS.items():
        setattr(owner, function, _timed(getattr(owner, function), taken[name], step))
    save, train_step = checkpoint.save, loop.Training.train_step

    def timed_save(*arguments: Any) -> None:
        measured["checkpoint_seconds"] = seconds_of(partial(save, *arguments))

    def profiled_step(training: Any, stop: bool) -> Launched:
        step[0] = training.step
        if training.step == 1 and training.place.rank == 0:
            # The first step has compiled; from here on, no other measurement may use the GPU.
            alone.enter_context(exclusive())
        if STEPS - training.step == PROFILED:
            profiler.start()
        done = train_step(training, stop)
        if STEPS - training.step == 1:
            profiler.stop()
        return done

    checkpoint.save, loop.Training.train_step = timed_save, profiled_step  # type: ignore[assignment]
    paths = RunPaths(directory / "checkpoints", directory / "model", directory / "metrics.jsonl")
    with ExitStack() as alone:
        loop.train(run, partial(_programs, run), "bench", paths)
    if not is_first():
        return
    records = [json.loads(line) for line in paths.metrics.read_text().splitlines()]
    within = slice(WARMUP, STEPS - PROFILED)
    pairs = list(zip(records[WARMUP - 1 :], records[within], strict=False))

    def median(name: str) -> float:
        return statistics.median(after[name] - before[name] for before, after in pairs)

    seconds = median("seconds")
    metadata = read_metadata_as(Trained, paths.export)
    rate = metadata.matmul_rate or math.nan
    waits = ("cudaStreamSynchronize", "cudaEventSynchronize")
    counted = sum(event.count for event in profiler.key_averages() if event.key in waits)
    facts = {
        "ranks": int(os.environ.get("WORLD_SIZE", "1")),
        "programs": run.train.batch_size,
        "ms_per_step": 1000 * seconds,
        "tokens_per_second": median("tokens") / seconds,
        "gflop_per_second": median("flops") / seconds / 1e9,
        "matmul_gflop_per_second": rate / 1e9,
        "bits": 16 if metadata.config.train.precision == "bf16" else 32,
        "share_of_matmul": median("flops") / seconds / rate,
        **{f"ms_of_{name}": 1000 * statistics.median(of[within]) for name, of in taken.items()},
        **measured,
        # The profiler itself synchronizes the device when it stops.
        "synchronizations_per_step": counted / PROFILED,
        "gpu_gib": torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else 0.0,
        "loss": records[-1]["loss"],
    }
    by = "self_cuda_time_total" if torch.cuda.is_available() else "self_cpu_time_total"
    profile = profiler.key_averages().table(sort_by=by, row_limit=ROWS, max_name_column_width=60)
    (directory / "profile.txt").write_text(f"{PROFILED} steps\n{profile}")
    (directory / "facts.json").write_text(json.dumps(facts))


def _timed(function: Callable[..., Any], taken: list[float], step: list[int]) -> Callable[..., Any]:
    @wraps(function)
    def timed(*arguments: Any, **options: Any) -> Any:
        start = time.perf_counter()
        try:
            return function(*arguments, **options)
        finally:
            taken[step[0]] += time.perf_counter() - start

    return timed


def _programs(run: config.Config, names: Collection[str] | None) -> Iterator[Samples]:
    """Yield :data:`PROGRAMS` training programs in the proportions of a config."""
    wanted = {name: getattr(run.dataset.templates, name).train for name in names or config.TEMPLATES}
    for name, count in wanted.items():
        if count:
            share = min(count, -(-PROGRAMS * count // sum(wanted.values())))
            yield sample(run.dataset, run.seed, name, "train", 0, share)


if __name__ == "__main__":
    if len(sys.argv) == 2:
        main(Path(sys.argv[1]))
    else:
        sys.exit(start(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])))
