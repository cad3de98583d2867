"""The time that preparing a batch takes, at the size of a large dataset."""

import statistics
import time

import numpy as np

from cadmus.bench import Measured
from cadmus.common.progress import progress
from cadmus.config import Train
from cadmus.programs import Programs, Samples, offsets_of
from cadmus.templates.random import random_programs
from cadmus.train.loader import Loader

PROGRAMS = 80_200_000
"""Those of the paper."""
LENGTHS = (4, 38)
"""Fewest and most instructions; the mean is that of the paper's dataset."""
BLOCK = 1_000_000
"""Different programs; the training set repeats them."""
BATCH = 1024
ROW_LENGTH = 96
REPEATS = 200


def bench_batches(count: int = PROGRAMS) -> Measured:
    """Prepare batches of random programs.

    The first batch of an epoch is measured by itself: the permutation of the epoch is drawn for it.

    Args:
        count: programs of the training set; each takes 40 bytes of memory.
    """
    block = random_programs(min(count, BLOCK), *LENGTHS)
    copies = -(-count // BLOCK)
    offsets = offsets_of(np.tile(block.lengths, copies)[:count])
    programs = Programs(np.tile(block.data, copies)[: offsets[-1]], offsets)
    training_set = Samples(programs, np.full(count, 3, np.uint8))
    loader = Loader(training_set, 0, Train(steps=1, batch_size=BATCH), ROW_LENGTH)
    # The first call compiles the packing.
    loader.load(0)
    loader = Loader(training_set, 1, Train(steps=1, batch_size=BATCH), ROW_LENGTH)
    seconds = []
    for step in progress("prepare", range(REPEATS + 1), unit="batches"):
        start = time.perf_counter()
        loader.load(step)
        seconds.append(time.perf_counter() - start)
    return {
        "programs": count,
        "batch": BATCH,
        "repeats": REPEATS,
        "milliseconds": round(1000 * statistics.median(seconds[1:]), 3),
        "longest_milliseconds": round(1000 * max(seconds[1:]), 3),
        "epoch_seconds": round(seconds[0], 2),
    }
