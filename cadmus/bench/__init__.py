"""Benchmarks of speed, one module per command of ``cadmus bench`` (``programs`` has two)."""

import statistics
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from cadmus.tools import progress

Facts = dict[str, int | float]


class Measured(NamedTuple):
    """The results of a benchmark.

    Attributes:
        facts: Settings, and results that belong to no row.
        rows: The table, by row and column.
    """

    facts: Facts
    rows: dict[str, Facts]

    def as_object(self) -> Facts:
        """Return all results as one flat object; a cell has the key ``ROW_COLUMN``."""
        cells = {f"{row}_{column}": value for row, of in self.rows.items() for column, value in of.items()}
        return self.facts | cells


def seconds_of(action: Callable[[], object]) -> float:
    """Return the wall-clock seconds of an action."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def median_seconds(actions: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Return the median seconds of each action.

    The actions take turns, so that other load on the machine affects all of them.
    """
    seconds: dict[str, list[float]] = {name: [] for name in actions}
    for _ in progress("repeats", range(repeats)):
        for name, action in actions.items():
            seconds[name].append(seconds_of(action))
    return {name: statistics.median(taken) for name, taken in seconds.items()}
