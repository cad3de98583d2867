"""Compiled loops over the bytes of :class:`cadmus.programs.Programs`.

Those that append add a piece to each row of a result and advance the ends of the rows.
"""

import numba
import numpy as np


@numba.njit(cache=True)
def copy_pieces(
    source: np.ndarray, starts: np.ndarray, target: np.ndarray, offsets: np.ndarray
) -> None:  # pragma: no cover - compiled
    for i in range(len(starts)):
        for k in range(offsets[i + 1] - offsets[i]):
            target[offsets[i] + k] = source[starts[i] + k]


@numba.njit(cache=True)
def contain(
    data: np.ndarray, offsets: np.ndarray, pieces: np.ndarray, piece_offsets: np.ndarray
) -> np.ndarray:  # pragma: no cover - compiled
    found = np.zeros(len(offsets) - 1, np.bool_)
    for i in range(len(found)):
        length = piece_offsets[i + 1] - piece_offsets[i]
        for start in range(offsets[i], offsets[i + 1] - length + 1):
            k = 0
            while k < length and data[start + k] == pieces[piece_offsets[i] + k]:
                k += 1
            if k == length:
                found[i] = True
                break
    return found


@numba.njit(cache=True)
def append_pieces(
    source: np.ndarray, source_offsets: np.ndarray, target: np.ndarray, end: np.ndarray
) -> None:  # pragma: no cover - compiled
    for i in range(len(end)):
        at = end[i]
        for k in range(source_offsets[i], source_offsets[i + 1]):
            target[at] = source[k]
            at += 1
        end[i] = at


@numba.njit(cache=True)
def append_literal(
    literal: np.ndarray, target: np.ndarray, end: np.ndarray
) -> None:  # pragma: no cover - compiled
    for i in range(len(end)):
        for k in range(len(literal)):
            target[end[i] + k] = literal[k]
        end[i] += len(literal)


@numba.njit(cache=True)
def append_column(
    column: np.ndarray, target: np.ndarray, end: np.ndarray
) -> None:  # pragma: no cover - compiled
    for i in range(len(end)):
        target[end[i]] = column[i]
        end[i] += 1
