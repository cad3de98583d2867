"""Comparison grid: accuracy at the comparator for every pair of values (the paper's heat map over X and
Y)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field, model_validator

from cadmus.common.progress import progress
from cadmus.config import Config, Positive, Section, Value, Values, check_order
from cadmus.errors import InputError
from cadmus.experiments.experiment import Cost, Experiment, Figure, Subject

if TYPE_CHECKING:
    import polars as pl

_PROGRAMS_AT_ONCE = 8_192


class Settings(Section):
    """The comparison grid: every pair of values (X, Y)."""

    low: Value = -60
    """smallest value of X and Y"""
    high: Value = 60
    """largest value of X and Y"""
    programs_per_pixel: Annotated[Positive, Field(le=10_000)] = 10
    """test programs per pair (X, Y)"""

    @model_validator(mode="after")
    def _check(self) -> "Settings":
        check_order([self.low, self.high])
        return self


def measure(subject: Subject) -> "pl.DataFrame":
    """Accuracy at the comparator for every pair of values (X, Y).

    The model reads two expressions of a test program. Its most likely next token, of all 65, has to be the
    comparator that holds.
    """
    config = subject.config
    settings: Settings = config.evaluate.grid
    results = comparison_grid(
        subject.model(), settings, config.dataset.values, config.dataset.eval_fraction, config.seed
    )
    if not results["programs"].sum():
        raise InputError(
            f"evaluate.grid: no test program compares values from {settings.low} to {settings.high}; choose "
            "a range that meets dataset.values"
        )
    return results


def comparison_grid(
    model: Any, settings: Settings, values: Values, eval_fraction: float, seed: int
) -> "pl.DataFrame":
    """Measure the accuracy of the next token at the comparator for every pair of values.

    Args:
        model: has ``next_logits(prompts)``, as :class:`cadmus.model.inference.Cadmus`.
        settings: range of the grid and programs per pair.
        values: range of the training set, the in-distribution square of the grid.
        eval_fraction: of the training set.
        seed: of the run.

    Returns:
        One row per pair: x, y, programs, correct (null where no test program exists), in_distribution.
    """
    import polars as pl

    from cadmus.evaluate.comparisons import HALF, grid_programs
    from cadmus.model.tokens import TOKEN_OF_BYTE
    from cadmus.templates.draw import comparator

    x, y, programs, pair = grid_programs(
        settings.low, settings.high, settings.programs_per_pixel, eval_fraction, seed
    )
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


def summary(results: "pl.DataFrame") -> "pl.DataFrame":
    """Return the accuracy by region."""
    from cadmus.evaluate import regions

    return regions.summary(results)


def cost(config: Config, lengths: Mapping[str, tuple[float, float]]) -> Cost:
    """Return the compute of a run."""
    from cadmus.evaluate.comparisons import HALF

    settings: Settings = config.evaluate.grid
    pairs = (settings.high - settings.low + 1) ** 2
    return Cost(pairs * settings.programs_per_pixel * 2 * HALF)


EXPERIMENT = Experiment(
    measure=measure,
    columns={"x": int, "y": int, "programs": int, "correct": int, "in_distribution": bool},
    settings=Settings,
    cost=cost,
    summary=summary,
    figures=(
        Figure(
            "comparison_grid",
            "Accuracy of the next token at the comparator, for test programs that compare X and Y. The "
            "dashed "
            "square holds the values of the training set.",
            sources=("llm",),
        ),
        Figure(
            "accuracy_by_distance",
            "Accuracy of the next token at the comparator by the distance of X or Y from the training range, "
            "for each of the three comparators; 0 is inside. Bands are Wilson 95% intervals, as in all "
            "figures.",
        ),
        Figure(
            "output_tokens",
            "Accuracy on the comparison against the most output tokens that a large language model may use; "
            "Cadmus uses one.",
            sources=("llm",),
        ),
    ),
)
