"""Programs that compare two five-instruction expressions, most of them of the test split.

The hash of a program alone decides its split, so new programs of the test split are in no training set.
"""

from collections.abc import Callable

import numpy as np
import polars as pl

from cadmus.config import Config, Dataset
from cadmus.dataset.splits import TEST, TRAIN, excluded_pairs, split_of
from cadmus.errors import InputError
from cadmus.programs import Programs, concat, join
from cadmus.templates.draw import comparator
from cadmus.templates.expressions import HALF, short_expressions
from cadmus.tools import generator
from cadmus.vm.compiled import execute

_CANDIDATES_AT_ONCE = 2_000_000  # for memory; results do not depend on it
_PAIRS_AT_ONCE = 1 << 17  # changing it changes which programs are drawn
# Not until n are found: on opposite sides there are only hundreds (log: claims next to better baselines).
_ROUNDS = 20

OUTSIDE: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "one_out": lambda x, y: (x == 0) != (y == 0),
    "opposite": lambda x, y: x * y < 0,
    "same_side": lambda x, y: x * y > 0,
}
"""Regions around the training range, by the sides of two numbers: -1 below the range, 0 in it and 1 above."""


def grid_programs(config: Config) -> tuple[np.ndarray, np.ndarray, Programs, np.ndarray]:
    """Sample distinct true comparisons of the test split for ``evaluate.grid``, the same for every model.

    Returns x and y of every pair, int64, shape (pairs,); the programs, grouped by pair; and the index of each
    program's pair, int64. A pair has fewer than ``programs_per_pixel``, or none, if no more exist.
    """
    grid, eval_fraction = config.evaluate.grid, config.dataset.eval_fraction
    axis = np.arange(grid.low, grid.high + 1)
    x, y = (side.ravel() for side in np.meshgrid(axis, axis, indexing="ij"))
    walks = _Walks(x, y, generator(config.seed, "grid"))
    walked, chosen = np.zeros((2, len(x)), np.int64)
    # One candidate in 1 / eval_fraction is of the test split; a fifth more saves most second rounds.
    stride = int(np.ceil(1.2 * grid.programs_per_pixel / eval_fraction))
    batches, owners = [Programs.from_strings([])], [np.empty(0, np.int64)]
    while len(unfinished := np.flatnonzero((chosen < grid.programs_per_pixel) & (walked < walks.size))):
        pairs = unfinished[: max(1, _CANDIDATES_AT_ONCE // stride)]
        length = np.minimum(walks.size[pairs] - walked[pairs], min(stride, _CANDIDATES_AT_ONCE))
        owner = np.repeat(pairs, length)
        programs = walks.programs(owner, walked[owner] + _counting(length))
        walked[pairs] += length
        rows = _test_rows(programs, owner, grid.programs_per_pixel - chosen, eval_fraction)
        chosen += np.bincount(owner[rows], minlength=len(x))
        batches.append(programs.take(rows))
        owners.append(owner[rows])
    owner = np.concatenate(owners)
    order = np.argsort(owner, kind="stable")
    return x, y, concat(batches).take(order), owner[order]


class _Walks:
    """For each pair of values, a walk from a random start through all programs that compare them."""

    def __init__(self, x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> None:
        self._x, self._y, self._table = x, y, short_expressions(HALF)
        self._y_count = self._table.count(y)
        self._x_first, self._y_first = np.searchsorted(self._table.values, [x, y])
        self.size = self._table.count(x) * self._y_count
        self._start = (rng.random(len(x)) * self.size).astype(np.int64)
        # A coprime step visits every program once, a large one changes the first expression, too.
        self._step = _coprime_near((self.size * rng.uniform(0.3, 0.7, len(x))).astype(np.int64), self.size)

    def programs(self, pair: np.ndarray, position: np.ndarray) -> Programs:
        """Return the programs at positions in the walks of pairs, both int64 of shape (n,)."""
        index = (self._start[pair] + position * self._step[pair]) % self.size[pair]
        x_row = self._x_first[pair] + index // self._y_count[pair]
        y_row = self._y_first[pair] + index % self._y_count[pair]
        programs = self._table.programs
        return join(programs.take(x_row), programs.take(y_row), comparator(self._x[pair], self._y[pair]))


def _test_rows(
    programs: Programs, owner: np.ndarray, missing: np.ndarray, eval_fraction: float
) -> np.ndarray:
    """Return the rows of programs of the test split, for each pair the first ``missing[pair]``: int64."""
    rows = np.flatnonzero(split_of(programs, eval_fraction) == TEST)
    # Owners ascend, so the programs of a pair follow each other and can be counted.
    _, counts = np.unique(owner[rows], return_counts=True)
    return rows[_counting(counts) < missing[owner[rows]]]


def sample_comparisons(
    rng: np.random.Generator, n: int, dataset: Dataset, wanted_by: str
) -> tuple[Programs, dict[str, np.ndarray]]:
    """Sample ``n`` distinct true comparisons of the test split, uniformly over all with both values in range.

    The error message names the config field ``wanted_by``, which sets ``n``. Returns the programs and their
    values x and y, int64, shape (n,).
    """
    values = dataset.values
    table = short_expressions(HALF)
    first, stop = np.searchsorted(table.values, [values.low, values.high + 1])

    def programs(pairs: np.ndarray) -> Programs:
        return join(*map(table.programs.take, pairs), comparator(*table.values[pairs]))

    chosen = np.empty((2, 0), np.int64)
    grew = first < stop
    while grew and chosen.shape[1] < n:
        pairs = rng.integers(first, stop, (2, _PAIRS_AT_ONCE))
        in_test = split_of(programs(pairs), dataset.eval_fraction) == TEST
        pairs = np.concatenate([chosen, pairs[:, in_test]], axis=1)
        _, distinct = np.unique(pairs, axis=1, return_index=True)
        grew = len(distinct) > chosen.shape[1]  # else hardly any new pair is left
        # In the order they were drawn: np.unique sorts, and the first n would be the smallest.
        chosen = pairs[:, np.sort(distinct)]
    if chosen.shape[1] < n:
        raise InputError(
            f"{wanted_by}: needs {n} test comparisons with both values from {values.low} to {values.high}, "
            f"but only {chosen.shape[1]} were found; ask for fewer or widen dataset.values"
        )
    chosen = chosen[:, :n]
    return programs(chosen), dict(zip("xy", table.values[chosen], strict=True))


def balanced_comparisons(
    rng: np.random.Generator, n: int, dataset: Dataset, split: int = TEST, half: int = HALF
) -> Programs:
    """Sample ``n`` distinct true comparisons of a split whose operators do not tell the comparator.

    Both values, of expressions of ``half`` instructions, are in range. However operators and digits are
    arranged, each comparator is as frequent as the others; otherwise the operators alone tell most of them,
    as negative values need a ``-``. Fewer than ``n`` are returned if no more are found.
    """
    values = _values(dataset, half)

    def draw() -> Programs:
        x, y = rng.choice(values, (2, _PAIRS_AT_ONCE))
        # Equal numbers are rare otherwise.
        y = np.where(rng.random(len(x)) < 1 / 3, x, y)
        return _draw(rng, x, y, dataset, split, half)

    return _balanced(rng, n, draw, 3, half) if len(values) else Programs.from_strings([])


def balanced_outside(
    rng: np.random.Generator, n: int, dataset: Dataset, axis: np.ndarray, region: str
) -> Programs:
    """Sample such comparisons of the test split, with unequal numbers of a region of :data:`OUTSIDE`.

    ``axis`` are the values to compare: int64. ``<`` and ``>`` are as frequent.
    """
    x, y = (side.ravel() for side in np.meshgrid(axis, axis))
    low, high = dataset.values.low, dataset.values.high
    sides = [(values > high).astype(np.int64) - (values < low) for values in (x, y)]
    inside = OUTSIDE[region](*sides) & (x != y)
    table = short_expressions(HALF)
    chosen = inside & (table.count(x) > 0) & (table.count(y) > 0)
    x, y = x[chosen], y[chosen]

    def draw() -> Programs:
        pairs = rng.integers(len(x), size=_PAIRS_AT_ONCE)
        return _draw(rng, x[pairs], y[pairs], dataset, TEST, HALF)

    return _balanced(rng, n, draw, 2, HALF) if len(x) else Programs.from_strings([])


def _balanced(
    rng: np.random.Generator, n: int, draw: Callable[[], Programs], comparators: int, half: int
) -> Programs:
    """Choose ``n`` of the drawn programs, or as many as are found, with balanced operators."""
    texts: list[str] = []
    groups = pl.DataFrame()
    for _ in range(_ROUNDS):
        texts += draw().to_strings()
        # The operators and their arrangement; a group has one program of a form for each comparator.
        form = pl.col("program").str.replace_all("[0-9]", "0").str.head(2 * half)
        numbered = (
            pl.DataFrame({"program": texts}, {"program": pl.String})
            .unique(maintain_order=True)
            .with_columns(form=form, comparator=pl.col("program").str.tail(1))
            .with_columns(number=pl.int_range(pl.len()).over("form", "comparator"))
        )
        groups = numbered.filter(pl.len().over("form", "number") == comparators).sort("form", "number")
        if len(groups) >= n:
            break
    chosen = rng.permutation(len(groups) // comparators)[: -(-n // comparators)]
    rows = rng.permutation((comparators * chosen[:, None] + np.arange(comparators)).ravel())[:n]
    return Programs.from_strings(groups["program"].gather(rows) if len(rows) else [])


def values_of(programs: Programs) -> np.ndarray:
    """Return the values that comparisons compare: int64, shape (2, n)."""
    cut = np.full(len(programs), HALF)
    halves = programs.prefixes(cut), programs.suffixes(cut).prefixes(cut)
    return np.stack([execute(half).values[:, 0] for half in halves]).astype(np.int64)


def training_comparisons(rng: np.random.Generator, n: int, dataset: Dataset) -> Programs:
    """Draw true comparisons of the training split, uniformly over pairs of values that training allows.

    Fewer than ``n`` are returned, because some are of other splits or excluded by a rule.
    """
    values = _values(dataset, HALF)
    if not len(values):
        return Programs.from_strings([])
    x, y = rng.choice(values, (2, n))
    return _draw(rng, x, y, dataset, TRAIN, HALF)


def _values(dataset: Dataset, half: int) -> np.ndarray:
    """Return the values in range that an expression of ``half`` instructions has: int64."""
    values = np.arange(dataset.values.low, dataset.values.high + 1)
    return values[short_expressions(half).count(values) > 0]


def _draw(
    rng: np.random.Generator, x: np.ndarray, y: np.ndarray, dataset: Dataset, split: int, half: int
) -> Programs:
    """Draw a true comparison of each pair of values; keep those of a split that no rule excludes."""
    table = short_expressions(half)
    programs = join(table.sample(rng, x), table.sample(rng, y), comparator(x, y))
    allowed = (split_of(programs, dataset.eval_fraction) == split) & ~excluded_pairs(dataset, x, y)
    return programs.take(np.flatnonzero(allowed))


def _counting(lengths: np.ndarray) -> np.ndarray:
    """Return 0, 1, ..., length - 1 for each length, concatenated."""
    return np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)


def _coprime_near(step: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Return the smallest number >= ``step`` that is coprime to ``size``."""
    step = np.maximum(step, 1)  # also for a size of 0: gcd(1, 0) is 1
    while (shared := (np.gcd(step, size) > 1)).any():
        step = step + shared
    return step
