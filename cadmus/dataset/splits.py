"""The split of a program, which the hash of its text decides (invariant I6).

A program that hashes to test is never in the training set, whatever the template, the seed or the shard. New
test programs can therefore be sampled at any time.

The same hashes find duplicates within a split: :class:`Seen` is the set of those that a shard has drawn.
"""

import numba
import numpy as np

from cadmus.config import OOD, SPLITS
from cadmus.programs import Programs

TRAIN, VALIDATION, TEST = range(len(SPLITS))


def hash_split(split: str) -> int:
    """Return the index in ``SPLITS`` that programs of ``split`` hash to; those of ood hash to test."""
    return TEST if split == OOD else SPLITS.index(split)


def hashes(programs: Programs) -> np.ndarray:
    """Return a 64-bit hash of the text of each program: uint64, shape (n,)."""
    return _hash_rows(programs.data, programs.offsets)


def split_of(programs: Programs, eval_fraction: float) -> np.ndarray:
    """Return the split of each program, an index into ``SPLITS``: uint8, shape (n,).

    ``eval_fraction`` of all possible programs are in validation, as many in test, the rest in train.
    """
    return split_of_hashes(hashes(programs), eval_fraction)


def split_of_hashes(hashed: np.ndarray, eval_fraction: float) -> np.ndarray:
    """As :func:`split_of`, for the hashes of programs."""
    place = (hashed >> np.uint64(11)).astype(np.float64) / 2.0**53
    split = np.full(len(hashed), TRAIN, np.uint8)
    split[place < 2 * eval_fraction] = TEST
    split[place < eval_fraction] = VALIDATION
    return split


@numba.njit(cache=True, nogil=True)
def _hash_rows(data: np.ndarray, offsets: np.ndarray) -> np.ndarray:  # pragma: no cover - compiled
    """Hash with FNV-1a and the finalizer of MurmurHash3, so that all bits depend on all bytes."""
    result = np.empty(len(offsets) - 1, np.uint64)
    for row in range(len(result)):
        h = np.uint64(0xCBF29CE484222325)
        for k in range(offsets[row], offsets[row + 1]):
            h = (h ^ np.uint64(data[k])) * np.uint64(0x100000001B3)
        h = (h ^ (h >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
        h = (h ^ (h >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
        result[row] = h ^ (h >> np.uint64(33))
    return result


class Seen:
    """A hash set for at most ``capacity`` hashes: open addressing, linear probing, at most half full."""

    def __init__(self, capacity: int) -> None:
        size = 1 << max(4, int(2 * capacity - 1).bit_length())
        # 0 marks a free place. A hash of 0 is stored as 1, which can drop one program in 2^64.
        self._table = np.zeros(size, np.uint64)

    def add(self, hashes: np.ndarray) -> np.ndarray:
        """Add hashes (uint64, shape (n,)) and return which of them are new: bool, shape (n,)."""
        return _add(self._table, hashes)


@numba.njit(cache=True, nogil=True)
def _add(table: np.ndarray, hashes: np.ndarray) -> np.ndarray:  # pragma: no cover - compiled
    mask = np.uint64(len(table) - 1)
    new = np.zeros(len(hashes), np.bool_)
    for i in range(len(hashes)):
        wanted = max(hashes[i], np.uint64(1))
        place = wanted & mask
        while table[place] != 0 and table[place] != wanted:
            place = (place + np.uint64(1)) & mask
        if table[place] == 0:
            table[place] = wanted
            new[i] = True
    return new
