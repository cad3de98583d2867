"""A set of hashes that only grows, to find duplicate programs."""

import numba
import numpy as np


class Seen:
    """A hash set with open addressing and linear probing, at most half full.

    Args:
        capacity: most hashes that will be added.
    """

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
