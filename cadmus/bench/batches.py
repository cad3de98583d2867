"""Time to prepare a training batch from a dataset of the paper's size."""

import statistics
from functools import partial

import numpy as np

from cadmus.bench import Measured, seconds_of
from cadmus.config import Train
from cadmus.programs import Programs, Samples, offsets_of
from cadmus.templates.random import random_programs
from cadmus.tools import progress
from cadmus.train.batches import Loader

# The paper's training set.
PROGRAMS = 80_200_000
# Minimum and maximum length; the mean is that of the paper's dataset.
LENGTHS = (4, 38)
# Distinct programs; the training set repeats them.
DISTINCT = 1_000_000
BATCH = 1024
ROW_LENGTH = 96
REPEATS = 200


def bench_batches(count: int = PROGRAMS) -> Measured:
    """Measure the preparation of batches of random programs.

    The first batch of an epoch is measured separately, as it includes the permutation of the epoch.

    Args:
        count: Programs of the training set; each takes 40 bytes of memory.
    """
    block = random_programs(min(count, DISTINCT), *LENGTHS)
    copies = -(-count // DISTINCT)
    offsets = offsets_of(np.tile(block.lengths, copies)[:count])
    programs = Programs(np.tile(block.data, copies)[: offsets[-1]], offsets)
    training_set = Samples(programs, np.full(count, 3, np.uint8))
    # The first call compiles the packing.
    Loader(training_set, 0, Train(steps=1, batch_size=BATCH), ROW_LENGTH).load(0)
    loader = Loader(training_set, 1, Train(steps=1, batch_size=BATCH), ROW_LENGTH)
    steps = progress("prepare", range(REPEATS + 1), unit="batches")
    first, *seconds = [seconds_of(partial(loader.load, step)) for step in steps]
    facts = {
        "programs": count,
        "batch": BATCH,
        "repeats": REPEATS,
        "milliseconds": round(1000 * statistics.median(seconds), 3),
        "longest_milliseconds": round(1000 * max(seconds), 3),
        "epoch_seconds": round(first, 2),
    }
    return Measured(facts, {})
