"""The programs of each step, a function of the seed, the step and, by template, the weights."""

import itertools

import numpy as np

from cadmus.tools import epoch_seed, generator, seed_of


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
            self._parts = [(_Epochs(seed, range(programs)), batch_size)]
            return
        drawn = generator(seed, "repeated set").permutation(programs)
        parts = [(drawn[:repeated], of_repeated), (drawn[repeated:], batch_size - of_repeated)]
        self._parts = [(_Epochs(seed, np.sort(indices)), share) for indices, share in parts if share]

    def batch(self, step: int) -> np.ndarray:
        """Return the indices of the programs of a step, counted from 0: int64, shape (batch_size,)."""
        return np.concatenate([part.take(step * share, share) for part, share in self._parts])


class TemplateBatches:
    """Batches whose programs are drawn from each template with other weights in each step.

    Args:
        seed: of the permutations and of the draws.
        counts: number of programs of each template, all above 0; the programs are in this order.
        batch_size: programs per step.
    """

    def __init__(self, seed: int, counts: np.ndarray, batch_size: int) -> None:
        self._seed = seed
        self._batch_size = batch_size
        bounds = [0, *np.cumsum(counts)]
        self._parts = [
            _Epochs(seed_of(seed, number), range(*within))
            for number, within in enumerate(itertools.pairwise(bounds))
        ]

    def draw(self, step: int, weights: np.ndarray, drawn: list[int]) -> tuple[np.ndarray, list[int]]:
        """Return the indices of the programs of a step, and how many were drawn of each template after it.

        Args:
            step: counted from 0.
            weights: float64, shape (templates,), at least 0; need not sum to 1.
            drawn: programs drawn of each template before; each goes through epochs of its own.
        """
        rng = generator(self._seed, "templates", step)
        shares = rng.multinomial(self._batch_size, weights / weights.sum()).tolist()
        parts = zip(self._parts, drawn, shares, strict=True)
        indices = np.concatenate([part.take(start, share) for part, start, share in parts if share])
        return rng.permutation(indices), [a + b for a, b in zip(drawn, shares, strict=True)]


class _Epochs:
    """An endless sequence of epochs, each a permutation of ascending ``indices``.

    A range takes no memory beside the permutation of the epoch.
    """

    def __init__(self, seed: int, indices: np.ndarray | range) -> None:
        self._seed = seed
        self._indices = indices
        self._epochs: dict[int, np.ndarray] = {}

    def take(self, first: int, count: int) -> np.ndarray:
        """Return ``count`` elements of the sequence from ``first`` on: int64, shape (count,)."""
        programs = len(self._indices)
        places = first + np.arange(count)
        epochs, within = places // programs, places % programs
        indices = np.empty(count, np.int64)
        for epoch in range(epochs[0], epochs[-1] + 1):
            indices[epochs == epoch] = self._permutation(epoch)[within[epochs == epoch]]
        # Steps come in order, so earlier epochs are not needed again.
        self._epochs = {epochs[-1]: self._permutation(epochs[-1])}
        return indices

    def _permutation(self, epoch: int) -> np.ndarray:
        if epoch not in self._epochs:
            dtype = np.int32 if self._indices[-1] < 2**31 else np.int64
            ascending = self._indices
            if isinstance(ascending, range):
                permutation = np.arange(ascending.start, ascending.stop, dtype=dtype)
            else:
                permutation = ascending.astype(dtype)
            np.random.default_rng(epoch_seed(self._seed, int(epoch))).shuffle(permutation)
            self._epochs[epoch] = permutation
        return self._epochs[epoch]
