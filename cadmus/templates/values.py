"""Numbers to compare and expressions for them: how frequent each value and each length is."""

from collections.abc import Sequence

import numba
import numpy as np

from cadmus.config import Values
from cadmus.errors import InputError
from cadmus.programs import Programs, interleave
from cadmus.templates.expressions import expressions


class ValueSampler:
    """A distribution over values and, for each value, over the expressions that have it.

    ``uniform_fraction`` of the numbers are uniform over the values in the range that any expression has, and
    the weights then choose among the lengths that can make the value.  For the others the weights choose
    the length first, and the value is as frequent as among the expressions of that length.  Expressions
    of one length and value are equally likely.

    Args:
        lengths: instructions of the expressions.
        weights: of each length, above 0; all the same if None.
        operators: what the expressions are made of.
        limits: the range and the share of uniform values.

    Raises:
        InputError: no expression has a value in the range.
    """

    def __init__(
        self, lengths: Sequence[int], weights: Sequence[float] | None, operators: str, limits: Values
    ) -> None:
        self._low = limits.low
        self._tables = [expressions(length, operators) for length in lengths]
        values = np.arange(limits.low, limits.high + 1)
        counts = np.array([table.count(values) for table in self._tables], np.float64)
        if not counts.any():
            smallest, largest = zip(*(table.extent for table in self._tables), strict=True)
            raise InputError(
                f"dataset.values: no expression of {' or '.join(map(str, lengths))} instructions with the "
                f"operators {operators} has a value from {limits.low} to {limits.high}; choose a range that "
                f"meets {min(smallest)} to {max(largest)}"
            )
        share = np.ones((len(lengths), 1)) if weights is None else np.array(weights, np.float64)[:, None]
        any_length = (share * (counts > 0)).sum(axis=0)
        uniform = share * (counts > 0) / np.where(any_length > 0, any_length, 1)
        within = counts.sum(axis=1, keepdims=True)
        natural = share * counts / np.where(within > 0, within, 1)
        joint = limits.uniform_fraction * uniform / uniform.sum()
        joint += (1 - limits.uniform_fraction) * natural / natural.sum()
        of_value = joint.sum(axis=0)
        self._possible = any_length > 0
        self._values = values[self._possible]
        self._alias = alias_table(of_value[self._possible])
        # The share of the lengths up to each, given the value.
        self._up_to = np.cumsum(joint, axis=0) / np.where(of_value > 0, of_value, 1)

    def values(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Values: int64, shape (n,)."""
        return _alias_draw(rng.random(n), *self._alias, self._values)

    def expressions(self, rng: np.random.Generator, values: np.ndarray) -> Programs:
        """An expression for each of ``values``, of which :meth:`has` is true."""
        if len(self._tables) == 1:
            return self._tables[0].sample(rng, values)
        which = _choose(rng.random(len(values)), values - self._low, self._up_to)
        drawn = [table.sample(rng, values[which == index]) for index, table in enumerate(self._tables)]
        return interleave(which, drawn)

    def has(self, values: np.ndarray) -> np.ndarray:
        """Whether each of ``values`` lies in the range and has an expression: bool, of the same shape."""
        places = np.clip(values - self._low, 0, len(self._possible) - 1)
        found: np.ndarray = self._possible[places] & (places == values - self._low)
        return found


def alias_table(shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Walker's alias table, for a draw in constant time.

    Args:
        shares: float64, shape (k,), of the outcomes, above 0; their sum is free.

    Returns:
        For each outcome the chance to keep it when its place is hit (float64), and the outcome to take
        otherwise (int64).
    """
    k = len(shares)
    keep, other = shares / shares.sum() * k, np.arange(k)
    small = [int(i) for i in np.flatnonzero(keep < 1)]
    large = [int(i) for i in np.flatnonzero(keep >= 1)]
    while small and large:
        i, j = small.pop(), large[-1]
        other[i] = j
        keep[j] -= 1 - keep[i]
        if keep[j] < 1:
            small.append(large.pop())
    # What is left is 1 but for rounding.
    keep[small + large] = 1
    return keep, other


@numba.njit(cache=True, nogil=True)
def _alias_draw(
    random: np.ndarray, keep: np.ndarray, other: np.ndarray, values: np.ndarray
) -> np.ndarray:  # pragma: no cover - compiled
    result = np.empty(len(random), np.int64)
    for i in range(len(random)):
        scaled = random[i] * len(keep)
        place = int(scaled)
        result[i] = values[place if scaled - place < keep[place] else other[place]]
    return result


@numba.njit(cache=True, nogil=True)
def _choose(
    random: np.ndarray, places: np.ndarray, up_to: np.ndarray
) -> np.ndarray:  # pragma: no cover - compiled
    """The first row of each column ``places[i]`` of ``up_to`` that ``random[i]`` is below."""
    which = np.zeros(len(random), np.uint8)
    for i in range(len(random)):
        for row in range(len(up_to) - 1):
            which[i] += random[i] >= up_to[row, places[i]]
    return which
