"""Which programs a step trains on; a function of the seed and the step alone."""

import numpy as np

from cadmus.config import Train, digest


class Batches:
    """The endless sequence of epochs, each a permutation of the programs, cut into batches.

    The number of a step is all that a resumed run needs to know.

    Args:
        seed: decides the permutations.
        programs: how many there are.
        sizes: programs of each step, shape (steps,).
        windows: the part of an epoch in which each program comes, shape (programs, 2) within 0 to 1; the
            whole epoch when None.
    """

    def __init__(
        self, seed: int, programs: int, sizes: np.ndarray, windows: np.ndarray | None = None
    ) -> None:
        self._seed = seed
        self._programs = programs if windows is None else min(programs, int(np.sum(sizes)))
        self._starts = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
        self._windows = windows
        self._epochs: dict[int, np.ndarray] = {}

    def batch(self, step: int) -> np.ndarray:
        """Indices of the programs of a step, counted from 0: int64, shape (n,)."""
        places = np.arange(self._starts[step], self._starts[step + 1])
        epochs, within = places // self._programs, places % self._programs
        indices = np.empty(len(places), np.int64)
        for epoch in range(epochs[0], epochs[-1] + 1):
            indices[epochs == epoch] = self._permutation(epoch)[within[epochs == epoch]]
        # Steps are asked for in order: an epoch that is over is not needed again.
        self._epochs = {epochs[-1]: self._permutation(epochs[-1])}
        return indices

    def _permutation(self, epoch: int) -> np.ndarray:
        if epoch not in self._epochs:
            seed = int(digest({"seed": self._seed, "split": "train", "epoch": int(epoch)}), 16)
            dtype = np.int32 if self._programs < 2**31 else np.int64
            rng = np.random.default_rng(seed)
            if self._windows is None:
                permutation = np.arange(self._programs, dtype=dtype)
                rng.shuffle(permutation)
            else:
                # What the training has steps for, each at its time.
                chosen = rng.permutation(len(self._windows))[: self._programs]
                starts, stops = self._windows[chosen].T
                times = starts + (stops - starts) * rng.random(len(chosen))
                permutation = chosen[np.argsort(times, kind="stable")].astype(dtype)
            self._epochs[epoch] = permutation
        return self._epochs[epoch]


def batch_sizes(train: Train) -> np.ndarray:
    """Programs of each step, int64, shape (steps,): the same, or growing evenly from the first to the last."""
    if train.first_batch_size is None:
        return np.full(train.steps, train.batch_size)
    unit = train.batch_size // (train.micro_batch_size or train.batch_size // train.ranks)
    sizes = np.linspace(train.first_batch_size, train.batch_size, train.steps)
    return np.maximum(np.round(sizes / unit), 1).astype(np.int64) * unit
