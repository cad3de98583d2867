"""Tiny trainings in processes of their own, and what they wrote."""

import json
import multiprocessing
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import torch
import yaml

from cadmus.model.export import load_export
from dev.measure import PATIENCE
from tests.train import worker
from tests.train.worker import Interrupt

# The server imports and compiles once; each training is a fork of it.
SUPERVISED = {"state_weight": 0.1, "state_labels": {"top": 1, "top_number": 1, "difference": 1}}
"""Settings of a training with labels of all kinds."""
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.train.preload"])


def run_config(**train) -> dict:
    return {
        "name": "test",
        "dataset": {"max_length": 31, "templates": {"random": {"train": 1}}},
        "model": {"layers": 2, "width": 32, "heads": 2, "mlp": 64},
        # bf16 on every CPU.
        "train": {"steps": 10, "batch_size": 32, "checkpoint_every": 5, "precision": "bf16", **train},
    }


def write_config(directory: Path, values: dict) -> None:
    directory.mkdir(exist_ok=True)
    (directory / "config.yaml").write_text(yaml.safe_dump(values))


def finish(process: multiprocessing.Process) -> int:
    process.join(PATIENCE)
    assert process.exitcode is not None, "the training hangs"
    return process.exitcode


def train(
    directory: Path, values: dict, data_digest: str = "data", interrupt: Interrupt | None = None
) -> int:
    """Return the exit code of a training, or the negative number of the signal that killed it."""
    write_config(directory, values)
    return finish(_start(worker.train, (directory, data_digest), interrupt))


def train_ranks(
    directory: Path, values: dict, ranks: int | None = None, interrupt: Interrupt | None = None
) -> int:
    """Train with one fork of the server per rank, which is faster than the launcher; see :func:`train`."""
    write_config(directory, values)
    ranks = ranks or values["train"].get("ranks", 1)
    port = free_port()
    places = [(directory, rank, ranks, port) for rank in range(ranks)]
    processes = [_start(worker.train_rank, place, interrupt) for place in places]
    return max(map(finish, processes), key=abs)


def _start(
    target: Callable[..., None], arguments: tuple, interrupt: Interrupt | None
) -> multiprocessing.Process:
    if interrupt:
        target, arguments = worker.interrupted, (interrupt, target, *arguments)
    process = PROCESSES.Process(target=target, args=arguments)
    process.start()
    return process


def free_port() -> int:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port: int = unused.getsockname()[1]
        return port


def metrics(directory: Path) -> list[dict]:
    return [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]


def losses(directory: Path) -> list[float]:
    assert [record["step"] for record in metrics(directory)] == list(range(1, len(metrics(directory)) + 1))
    return [record["loss"] for record in metrics(directory)]


def assert_same_model(one: Path, other: Path, tolerance: float = 0.0) -> None:
    first, second = (load_export(directory / "model").state_dict() for directory in (one, other))
    for name in first:
        torch.testing.assert_close(
            first[name], second[name], atol=tolerance, rtol=0, msg=lambda text, name=name: f"{name}: {text}"
        )


def go_back(directory: Path, step: int) -> None:
    """Turn a finished run into one that was killed after its checkpoint of ``step``."""
    for newer in (directory / "checkpoints").glob("step-*"):
        if newer.name > f"step-{step:08d}":
            shutil.rmtree(newer)
    shutil.rmtree(directory / "model")
