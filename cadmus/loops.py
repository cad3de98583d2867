"""Compiled loops over the bytes of :class:`cadmus.programs.Programs`, without the GIL."""

import numba
import numpy as np


@numba.njit(cache=True, nogil=True)
def append(
    source: np.ndarray, starts: np.ndarray, stops: np.ndarray, target: np.ndarray, end: np.ndarray
) -> None:  # pragma: no cover - compiled
    """Add a piece of ``source`` to each row of ``target`` and advance the ends of the rows."""
    for i in range(len(end)):
        at = end[i]
        for k in range(starts[i], stops[i]):
            target[at] = source[k]
            at += 1
        end[i] = at


@numba.njit(cache=True, nogil=True)
def contain(
    data: np.ndarray, offsets: np.ndarray, pieces: np.ndarray, piece_offsets: np.ndarray
) -> np.ndarray:  # pragma: no cover - compiled
    contained = np.zeros(len(offsets) - 1, np.bool_)
    for i in range(len(contained)):
        length = piece_offsets[i + 1] - piece_offsets[i]
        for start in range(offsets[i], offsets[i + 1] - length + 1):
            k = 0
            while k < length and data[start + k] == pieces[piece_offsets[i] + k]:
                k += 1
            if k == length:
                contained[i] = True
                break
    return contained
