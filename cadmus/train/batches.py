"""The programs of each step, a function of the seed and the step alone."""

import numpy as np

from cadmus.common.seeds import epoch_seed


class Batches:
    """An endless sequence of epochs, each a permutation of the programs, cut into batches.

    Step k takes elements k * batch_size to (k + 1) * batch_size, so a resumed run needs only its step.
    """

    def __init__(self, seed: int, programs: int, batch_size: int) -> None:
        self._seed = seed
        self._programs = programs
        self._batch_size = batch_size
        self._epochs: dict[int, np.ndarray] = {}

    def batch(self, step: int) -> np.ndarray:
        """Return the indices of the programs of a step, counted from 0: int64, shape (batch_size,)."""
        places = step * self._batch_size + np.arange(self._batch_size)
        epochs, within = places // self._programs, places % self._programs
        indices = np.empty(self._batch_size, np.int64)
        for epoch in range(epochs[0], epochs[-1] + 1):
            indices[epochs == epoch] = self._permutation(epoch)[within[epochs == epoch]]
        # Steps come in order, so earlier epochs are not needed again.
        self._epochs = {epochs[-1]: self._permutation(epochs[-1])}
        return indices

    def _permutation(self, epoch: int) -> np.ndarray:
        if epoch not in self._epochs:
            dtype = np.int32 if self._programs < 2**31 else np.int64
            permutation = np.arange(self._programs, dtype=dtype)
            np.random.default_rng(epoch_seed(self._seed, int(epoch))).shuffle(permutation)
            self._epochs[epoch] = permutation
        return self._epochs[epoch]
