"""The split of a program, decided by the hash of its text (invariant I6) and the rules of ``dataset.ood``.

A program that hashes to test is never in the training set, whatever the template, the seed or the shard. New
test programs can therefore be sampled at any time.

Programs that a rule excludes form the split ``ood``. It is sampled from the hash range of test, so none of
them is trained on, even if a rule names one template and another template draws the same program.
"""

from collections.abc import Iterable

import numba
import numpy as np

from cadmus.config import OOD, SPLITS, Dataset, OODRule
from cadmus.programs import Programs, Samples
from cadmus.templates.behavior import fractions

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
    fraction = (hashed >> np.uint64(11)).astype(np.float64) / 2.0**53
    split = np.full(len(hashed), TRAIN, np.uint8)
    split[fraction < 2 * eval_fraction] = TEST
    split[fraction < eval_fraction] = VALIDATION
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
    """A set of at most ``capacity`` hashes, to find duplicates: open addressing, at most half full."""

    def __init__(self, capacity: int) -> None:
        size = 1 << max(4, int(2 * capacity - 1).bit_length())
        # 0 marks a free slot. A hash of 0 is stored as 1, which can drop one program in 2^64.
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
        slot = wanted & mask
        while table[slot] != 0 and table[slot] != wanted:
            slot = (slot + np.uint64(1)) & mask
        if table[slot] == 0:
            table[slot] = wanted
            new[i] = True
    return new


def matches(rules: Iterable[OODRule], samples: Samples) -> np.ndarray:
    """Match programs against rules: bool, shape (rules, n). Without compared values, no value matches."""
    rows = [_matches(rule, samples) for rule in rules]
    return np.array(rows, np.bool_).reshape(len(rows), len(samples))


def _matches(rule: OODRule, samples: Samples) -> np.ndarray:
    if rule.length is not None:
        return _within(samples.programs.lengths, rule.length)
    if rule.prompt_length is not None:
        return _within(samples.prompt_length, rule.prompt_length)
    if rule.contains is not None:
        every = np.zeros(len(samples), np.int64)
        pieces = (Programs.from_strings([piece]).take(every) for piece in rule.contains)
        return np.any([samples.programs.contain(piece) for piece in pieces], axis=0)
    if rule.functions is not None:
        return fractions(samples.programs) < rule.functions
    if samples.x is None or samples.y is None:
        return np.zeros(len(samples), np.bool_)
    return _matches_values(rule, samples.x, samples.y)


def _within(lengths: np.ndarray, interval: list[int]) -> np.ndarray:
    low, high = interval
    return (lengths >= low) & (lengths <= high)


def _matches_values(rule: OODRule, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Tell in which rows either or both of x and y are in one of the intervals; a masked value is in none."""
    intervals = [value if isinstance(value, list) else [value] for value in rule.values or []]
    found = [
        np.any([np.ma.filled((side >= ends[0]) & (side <= ends[-1]), False) for ends in intervals], axis=0)
        for side in (x, y)
    ]
    return found[0] | found[1] if rule.compared == "either" else found[0] & found[1]


def excluded_pairs(dataset: Dataset, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Tell which pairs of compared values the rules by value exclude: bool, shape (n,).

    Equal values are those of the template equality, others of less_greater.
    """
    excluded = np.zeros(len(x), np.bool_)
    for template, pairs in (("equality", x == y), ("less_greater", x != y)):
        for rule in dataset.rules_for(template).values():
            if rule.values is not None:
                excluded |= pairs & _matches_values(rule, x, y)
    return excluded
