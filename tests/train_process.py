"""A training in a process of its own, as DeepSpeed needs it; started by test_train.py."""

import os
import sys
from pathlib import Path

import numpy as np

from cadmus import isa
from cadmus.config import load_config
from cadmus.errors import InputError
from cadmus.programs import Programs, offsets_of
from cadmus.train import loop

# Threads cost these tiny models more than they save.
os.environ.setdefault("OMP_NUM_THREADS", "1")


def random_programs(count: int = 300, low: int = 4, high: int = 30) -> Programs:
    generator = np.random.default_rng(3)
    symbols = np.array([ord(row.symbol) for row in isa.INSTRUCTIONS if row.symbol != isa.END], np.uint8)
    lengths = generator.integers(low, high + 1, count)
    return Programs(generator.choice(symbols, lengths.sum()), offsets_of(lengths))


def train(directory: Path, data_digest: str = "data") -> None:
    """Train by ``config.yaml`` in the directory; exit code 3 after a signal, 2 on bad input."""
    try:
        loop.train(
            load_config(directory / "config.yaml"),
            random_programs(),
            np.full(300, 3),
            data_digest,
            directory / "checkpoints",
            directory / "model",
            directory / "metrics.jsonl",
            lambda line: None,
        )
    except InputError as error:
        (directory / "error").write_text(str(error))
        sys.exit(2)
    except loop.Interrupted:
        sys.exit(3)


def train_rank(directory: Path, rank: int, ranks: int, port: int) -> None:
    """As :func:`train`, as one of several ranks."""
    place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks}
    os.environ.update({name: str(value) for name, value in place.items()}, MASTER_PORT=str(port))
    train(directory)


if __name__ == "__main__":
    train(Path(sys.argv[1]))
