"""The order of the training programs: endless epochs of all of them, unless an objective has its own.

The programs of a step depend on the seed and the step alone. So a resumed training sees the same ones.
"""

import functools

import numpy as np

from cadmus.programs import Samples
from cadmus.tools import epoch_seed


class Order:
    """Chooses the programs of each step: by default endless epochs, each a permutation of all programs."""

    def __init__(self, training_set: Samples, seed: int) -> None:
        self.programs, self.seed = len(training_set), seed

    def draw(self, step: int, batch_size: int) -> np.ndarray:
        """Return the indices of the programs of a step, counted from 0: int64, shape (batch_size,)."""
        return programs_of(step, self.seed, self.programs, batch_size)


def programs_of(step: int, seed: int, programs: int, batch_size: int) -> np.ndarray:
    """Return the indices of the programs of a step, counted from 0: int64, shape (batch_size,)."""
    epochs, within = np.divmod(step * batch_size + np.arange(batch_size), programs)
    indices = np.empty(batch_size, np.int64)
    for epoch in range(int(epochs[0]), int(epochs[-1]) + 1):
        indices[epochs == epoch] = _permutation(epoch, seed, programs)[within[epochs == epoch]]
    return indices


# Steps come nearly in order: those that are prepared at the same time are of two epochs at most.
@functools.lru_cache(maxsize=2)
def _permutation(epoch: int, seed: int, programs: int) -> np.ndarray:
    permutation = np.arange(programs, dtype=np.int32 if programs <= 2**31 else np.int64)
    np.random.default_rng(epoch_seed(seed, epoch)).shuffle(permutation)
    return permutation
