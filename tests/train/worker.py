"""A training in its own process, as DeepSpeed needs it; see runs.py."""

import os
import sys
from collections.abc import Callable, Collection
from contextlib import nullcontext
from pathlib import Path
from signal import Signals
from typing import Any, NamedTuple

import psutil

from cadmus.config import load_config
from cadmus.errors import InputError, Interrupted
from cadmus.programs import Samples
from cadmus.train import graphs, loop
from cadmus.train.loop import Launched
from cadmus.train.paths import RunPaths
from cadmus.train.ranks import HOST, RUN_ID, RUN_PREFIX
from tests.model.models import random_programs
from tests.train import tape

# Threads cost these tiny models more than they save.
os.environ.setdefault("OMP_NUM_THREADS", "1")


def listening() -> list[str]:
    """Return the addresses on which the ranks and their launcher listen."""
    launcher = psutil.Process(os.getppid())
    found = [of.net_connections("tcp") for of in (launcher, *launcher.children())]
    return [each.laddr.ip for of in found for each in of if each.status == psutil.CONN_LISTEN]


class Interrupt(NamedTuple):
    """A signal that each rank sends to itself in the step after ``step`` steps."""

    step: int
    signal: Signals


def interrupted(interrupt: Interrupt, target: Callable[..., None], *arguments: Any) -> None:
    """Call ``target``, which trains, with an interrupt."""
    train_step = loop.Training.train_step

    def step(training: loop.Training, stop: bool) -> Launched:
        if training.step == interrupt.step:
            os.kill(os.getpid(), interrupt.signal)
        return train_step(training, stop)

    loop.Training.train_step = step
    target(*arguments)


def read(templates: Collection[str] | None) -> list[Samples]:
    """Return the training programs."""
    programs = random_programs(300, 4, 30, seed=3)
    # The prompt is all but the end.
    return [Samples(programs, programs.lengths)]


def train(directory: Path, data_digest: str = "data") -> None:
    """Train by ``config.yaml`` in the directory; exit code 3 after a signal, 2 on bad input."""

    def log(line: str) -> None:
        with (directory / "log").open("a") as file:
            print(line, file=file)

    def read_here(templates: Collection[str] | None) -> list[Samples]:
        (directory / "listening").write_text("\n".join(listening()))
        return read(templates)

    run = load_config(directory / "config.yaml")
    wants_snapshots = "snapshots" in run.train.model_fields_set
    try:
        loop.train(
            run,
            read_here,
            data_digest,
            RunPaths(
                directory / "checkpoints",
                directory / "model",
                directory / "metrics.jsonl",
                directory / "snapshots" if wants_snapshots else None,
            ),
            log,
        )
    except InputError as error:
        (directory / "error").write_text(str(error))
        sys.exit(2)
    except Interrupted:
        sys.exit(3)


def train_rank(directory: Path, rank: int, ranks: int, port: int) -> None:
    """As :func:`train`, as one of several ranks."""
    place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks}
    place |= {"MASTER_ADDR": HOST, "MASTER_PORT": port, RUN_ID: f"{RUN_PREFIX}test"}
    os.environ.update({name: str(value) for name, value in place.items()})
    train(directory)


def train_recorded(directory: Path, fail: bool) -> None:
    """As :func:`train`, with a tape in place of CUDA graphs, which may fail; ``replays`` counts its steps."""
    replays = []

    def record(compute: Callable[[], None]) -> Callable[[], None]:
        replay = tape.record(compute)
        if fail:
            raise RuntimeError("no memory\nfor graphs")
        return lambda: replays.append(replay())

    graphs.obstacle = lambda *arguments: None
    graphs.stream_of_its_own, graphs.record = nullcontext, record
    train(directory)
    (directory / "replays").write_text(str(len(replays)))


if __name__ == "__main__":
    train(Path(sys.argv[1]))
