"""Distributions of the numbers to compare and of the expressions for them."""

import numba
import numpy as np

from cadmus.config import ExpressionTemplate, Values
from cadmus.errors import InputError
from cadmus.programs import Programs, interleave
from cadmus.templates.expressions import expressions


class ValueSampler:
    """A distribution over values and, for each value, over the expressions that have it.

    ``uniform_fraction`` of the numbers are uniform over the values in the range that have an expression; the
    length weights then choose among the lengths that can make the value. For the other numbers, the length
    weights choose the length first, and the value is as frequent as among the expressions of that length.
    Expressions of one length and value are equally likely.
    """

    def __init__(self, template: ExpressionTemplate, limits: Values) -> None:
        self._low = limits.low
        self._tables = [expressions(length, template.operators) for length in template.expression_lengths]
        values = np.arange(limits.low, limits.high + 1)
        counts = np.array([table.count(values) for table in self._tables], np.float64)
        if not counts.any():
            smallest, largest = zip(*(table.extent for table in self._tables), strict=True)
            raise InputError(
                f"dataset.values: no expression of {' or '.join(map(str, template.expression_lengths))} "
                f"instructions with the operators {template.operators} has a value from {limits.low} to "
                f"{limits.high}; choose a range that overlaps {min(smallest)} to {max(largest)}"
            )
        even = [1] * len(template.expression_lengths)
        weights = np.array(template.length_weights or even, np.float64)[:, None]
        any_length = (weights * (counts > 0)).sum(axis=0)
        uniform = weights * (counts > 0) / np.where(any_length > 0, any_length, 1)
        within = counts.sum(axis=1, keepdims=True)
        natural = weights * counts / np.where(within > 0, within, 1)
        joint = limits.uniform_fraction * uniform / uniform.sum()
        joint += (1 - limits.uniform_fraction) * natural / natural.sum()
        value_weights = joint.sum(axis=0)
        self._possible = any_length > 0
        self._values = values[self._possible]
        self._alias = alias_table(value_weights[self._possible])
        # For each value, the cumulative distribution over lengths.
        self._cumulative = np.cumsum(joint, axis=0) / np.where(value_weights > 0, value_weights, 1)

    def values(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Draw values: int64, shape (n,)."""
        return _alias_draw(rng.random(n), *self._alias, self._values)

    def expressions(self, rng: np.random.Generator, values: np.ndarray) -> Programs:
        """Draw an expression for each of ``values``, for which :meth:`has` must be true."""
        if len(self._tables) == 1:
            return self._tables[0].sample(rng, values)
        # Without the last row, which rounding can leave below 1: no draw exceeds all lengths.
        below = self._cumulative[:-1, values - self._low] <= rng.random(len(values))
        which = below.sum(axis=0, dtype=np.uint8)
        batches = [table.sample(rng, values[which == index]) for index, table in enumerate(self._tables)]
        return interleave(which, batches)

    def has(self, values: np.ndarray) -> np.ndarray:
        """Tell which of ``values`` are in the range and have an expression: bool, of the same shape."""
        indices = np.clip(values - self._low, 0, len(self._possible) - 1)
        return self._possible[indices] & (indices == values - self._low)


def alias_table(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Build Walker's alias table, from which a draw takes constant time; the weights are above 0.

    Returns for each outcome the probability to keep it (float64) and the outcome to take otherwise (int64).
    """
    k = len(weights)
    keep, other = weights / weights.sum() * k, np.arange(k)
    small = [int(i) for i in np.flatnonzero(keep < 1)]
    large = [int(i) for i in np.flatnonzero(keep >= 1)]
    while small and large:
        i, j = small.pop(), large[-1]
        other[i] = j
        keep[j] -= 1 - keep[i]
        if keep[j] < 1:
            small.append(large.pop())
    # The rest differs from 1 by rounding errors only.
    keep[small + large] = 1
    return keep, other


# 4 ns a draw, where Generator.choice takes 28 (log: the paper's 80.2 million programs).
@numba.njit(cache=True, nogil=True)
def _alias_draw(
    random: np.ndarray, keep: np.ndarray, other: np.ndarray, values: np.ndarray
) -> np.ndarray:  # pragma: no cover - compiled
    result = np.empty(len(random), np.int64)
    for i in range(len(random)):
        scaled = random[i] * len(keep)
        index = int(scaled)
        result[i] = values[index if scaled - index < keep[index] else other[index]]
    return result
