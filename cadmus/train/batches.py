"""The programs of each step, a function of the seed and the step alone."""

import numpy as np

from cadmus.common.seeds import epoch_seed, generator


class Batches:
    """The batches of a training: endless epochs over the programs, cut into steps.

    With a repeated set, a part of each batch comes from epochs over a few fixed programs, the rest from
    epochs over all others (two-set training, Charton and Kempe 2024, arXiv 2410.07041).

    Args:
        seed: of the permutations.
        programs: number of programs.
        batch_size: programs per step.
        repeated: number of programs in the repeated set, fewer than ``programs``.
        of_repeated: programs per step from the repeated set; 0 for epochs over all programs.
    """

    def __init__(
        self, seed: int, programs: int, batch_size: int, repeated: int = 0, of_repeated: int = 0
    ) -> None:
        if not of_repeated:
            self._parts = [_Epochs(seed, np.arange(programs), batch_size)]
            return
        drawn = generator(seed, "repeated set").permutation(programs)
        parts = [(drawn[:repeated], of_repeated), (drawn[repeated:], batch_size - of_repeated)]
        self._parts = [_Epochs(seed, np.sort(indices), share) for indices, share in parts if share]

    def batch(self, step: int) -> np.ndarray:
        """Return the indices of the programs of a step, counted from 0: int64, shape (batch_size,)."""
        return np.concatenate([part.batch(step) for part in self._parts])


class _Epochs:
    """An endless sequence of epochs, each a permutation of ascending ``indices``, cut into batches.

    Step k takes elements k * batch_size to (k + 1) * batch_size, so a resumed run needs only its step.
    """

    def __init__(self, seed: int, indices: np.ndarray, batch_size: int) -> None:
        self._seed = seed
        self._indices = indices.astype(np.int32 if indices[-1] < 2**31 else np.int64)
        self._batch_size = batch_size
        self._epochs: dict[int, np.ndarray] = {}

    def batch(self, step: int) -> np.ndarray:
        programs = len(self._indices)
        places = step * self._batch_size + np.arange(self._batch_size)
        epochs, within = places // programs, places % programs
        indices = np.empty(self._batch_size, np.int64)
        for epoch in range(epochs[0], epochs[-1] + 1):
            indices[epochs == epoch] = self._permutation(epoch)[within[epochs == epoch]]
        # Steps come in order, so earlier epochs are not needed again.
        self._epochs = {epochs[-1]: self._permutation(epochs[-1])}
        return indices

    def _permutation(self, epoch: int) -> np.ndarray:
        if epoch not in self._epochs:
            permutation = self._indices.copy()
            np.random.default_rng(epoch_seed(self._seed, int(epoch))).shuffle(permutation)
            self._epochs[epoch] = permutation
        return self._epochs[epoch]
