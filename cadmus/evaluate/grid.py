"""The comparison grid (the paper's heat map of accuracy over X and Y).

For every pair of values the model reads two held-out expressions and its most probable next token, of all
65, has to be the comparator that makes the program true.
"""

from typing import Any

import numpy as np
import polars as pl

from cadmus.common.progress import progress
from cadmus.config import Grid, Values
from cadmus.evaluate.comparisons import HALF, sample_per_pair
from cadmus.model.tokens import TOKEN_OF_BYTE
from cadmus.programs import Programs
from cadmus.templates.draw import comparator

_PROGRAMS_AT_ONCE = 8_192


def grid_programs(
    settings: Grid, eval_fraction: float, seed: int
) -> tuple[np.ndarray, np.ndarray, Programs, np.ndarray]:
    """The held-out programs of the grid, the same for whoever is asked about them.

    Returns:
        x and y of every pair of values (int64, shape (pairs,)); the programs, comparator and all, those of a
        pair together; and the index of each one's pair (int64), as
        :func:`cadmus.evaluate.comparisons.sample_per_pair` gives them.
    """
    axis = np.arange(settings.low, settings.high + 1)
    x, y = (side.ravel() for side in np.meshgrid(axis, axis, indexing="ij"))
    rng = np.random.default_rng([seed, *b"grid"])
    return x, y, *sample_per_pair(rng, x, y, settings.programs_per_pixel, eval_fraction)


def comparison_grid(
    model: Any, settings: Grid, values: Values, eval_fraction: float, seed: int
) -> pl.DataFrame:
    """Accuracy of the next token at the comparator, for every pair of values.

    Args:
        model: has ``next_logits(prompts)`` as :class:`cadmus.model.Cadmus` does.
        settings: the range of the grid and the programs of each pair.
        values: the range of the training set, which is the grid's in-distribution square.
        eval_fraction: as the training set was split.

    Returns:
        One row a pair: x, y, programs, correct (null where no held-out program exists) and
        in_distribution.
    """
    x, y, programs, pair = grid_programs(settings, eval_fraction, seed)
    prompts = programs.prefixes(np.full(len(programs), 2 * HALF))
    expected = TOKEN_OF_BYTE[comparator(x, y)][pair]
    predicted = np.empty(len(programs), np.int64)
    for first in progress("grid", range(0, len(programs), _PROGRAMS_AT_ONCE)):
        rows = np.arange(first, min(first + _PROGRAMS_AT_ONCE, len(programs)))
        predicted[rows] = model.next_logits(prompts.take(rows)).argmax(axis=1)
    tested = np.bincount(pair, minlength=len(x))
    correct = np.bincount(pair[predicted == expected], minlength=len(x))
    low, high = values.low, values.high
    return pl.DataFrame(
        {
            "x": x,
            "y": y,
            "programs": tested,
            "correct": correct,
            "in_distribution": (low <= x) & (x <= high) & (low <= y) & (y <= high),
        }
    ).with_columns(pl.when(pl.col("programs") > 0).then("correct"))
