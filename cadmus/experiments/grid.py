"""Comparison grid: accuracy at the comparator for every pair of values (the paper's heat map over X, Y)."""

import numpy as np
import polars as pl

from cadmus.columns import COUNT, FLAG, VALUE
from cadmus.config import Config, Dataset
from cadmus.errors import InputError
from cadmus.evaluate.statistics.regions import LEARNED, PREDICTIONS
from cadmus.evaluate.statistics.regions import summary as by_region
from cadmus.experiments.experiment import Experiment, Figure, Subject, Summary
from cadmus.programs import TOKEN_OF_BYTE, Programs, concat
from cadmus.tools import generator, progress

_PROGRAMS_AT_ONCE = 8_192
_TRAINING_PROGRAMS = 50_000


def measure(subject: Subject) -> pl.DataFrame:
    """Accuracy at the comparator for every pair of values (X, Y).

    The model reads the two expressions of a test program. It is correct if its most likely next token, of all
    65, is the comparator that holds. Programs whose operators do not tell the comparator, in the training
    range and around it, have rows of their own, where ``balanced`` is true.
    """
    from cadmus.dataset.splits import excluded_pairs
    from cadmus.evaluate.prompts.comparisons import grid_programs, values_of
    from cadmus.templates.draw import comparator
    from cadmus.templates.expressions import HALF

    config, dataset, model = subject.config, subject.config.dataset, subject.model()
    x, y, programs, pair = grid_programs(config)
    if not len(programs):
        raise InputError(
            f"evaluate.grid: no test program compares values from {config.evaluate.grid.low} to "
            f"{config.evaluate.grid.high}; choose a range that meets dataset.values"
        )
    # The rows of balanced programs, one for each pair of their values, follow those of the grid.
    pixels = len(x)
    balanced = _balanced_programs(config, np.unique(x))
    balanced_values, balanced_pair = np.unique(values_of(balanced), axis=1, return_inverse=True)
    x, y = np.concatenate([[x, y], balanced_values], axis=1)
    programs, pair = concat([programs, balanced]), np.concatenate([pair, pixels + balanced_pair])
    prompts = programs.prefixes(np.full(len(programs), 2 * HALF))
    expected = TOKEN_OF_BYTE[comparator(x, y)][pair]
    predicted = np.empty(len(programs), np.int64)
    for first in progress("grid", range(0, len(programs), _PROGRAMS_AT_ONCE)):
        rows = np.arange(first, min(first + _PROGRAMS_AT_ONCE, len(programs)))
        predicted[rows] = model.next_tokens(prompts.take(rows))
    counted: dict[str, np.ndarray | None] = {
        "correct": predicted == expected,
        **{name: predicted == TOKEN_OF_BYTE[ord(symbol)] for name, symbol in PREDICTIONS.items()},
        **_learned(dataset, config.seed, prompts, expected),
    }
    counts = {
        name: None if is_counted is None else np.bincount(pair[is_counted], minlength=len(x))
        for name, is_counted in counted.items()
    }
    low, high = dataset.values.low, dataset.values.high
    allowed = (low <= x) & (x <= high) & (low <= y) & (y <= high) & ~excluded_pairs(dataset, x, y)
    columns = {"x": x, "y": y, "programs": np.bincount(pair, minlength=len(x)), **counts}
    columns |= {"in_distribution": allowed, "balanced": np.arange(len(x)) >= pixels}
    # A baseline without counts would have no type.
    results = pl.DataFrame(columns, schema_overrides=dict.fromkeys(LEARNED, pl.Int64))
    return results.with_columns(
        pl.when(pl.col("programs") > 0).then(pl.col(name)).alias(name) for name in counts
    )


def _balanced_programs(config: Config, axis: np.ndarray) -> Programs:
    """Sample programs with balanced operators in the training range and around it, of values on ``axis``."""
    from cadmus.evaluate.prompts.comparisons import (
        OUTSIDE,
        balanced_comparisons,
        balanced_outside,
    )

    rng, n = generator(config.seed, "balanced comparisons"), config.evaluate.grid.balanced
    inside = balanced_comparisons(rng, n, config.dataset)
    return concat([inside, *(balanced_outside(rng, n, config.dataset, axis, region) for region in OUTSIDE)])


def _learned(
    dataset: Dataset, seed: int, prompts: Programs, expected: np.ndarray
) -> dict[str, np.ndarray | None]:
    """Return which prompts each learned baseline completes with the right token; None without programs."""
    from cadmus.evaluate.baselines.linear import Linear
    from cadmus.evaluate.prompts.comparisons import training_comparisons
    from cadmus.templates.expressions import HALF

    programs = training_comparisons(generator(seed, "grid baselines"), _TRAINING_PROGRAMS, dataset)
    if not len(programs):
        return dict.fromkeys(LEARNED)
    cut = np.full(len(programs), 2 * HALF)
    examples = programs.prefixes(cut), programs.suffixes(cut)
    fitted = {
        name: Linear(*examples, operators_only=name == "operators", pairs=name == "pairs")
        for name in progress("grid baselines", LEARNED)
    }
    return {name: TOKEN_OF_BYTE[fit.complete(prompts).data] == expected for name, fit in fitted.items()}


def metrics(results: pl.DataFrame) -> pl.DataFrame:
    """Return the accuracy in each region with programs."""
    tested = by_region(results).filter(pl.col("programs") > 0)
    return tested.with_columns(template="region", metric=pl.lit("accuracy"), value="accuracy", n="programs")


def summarize(results: pl.DataFrame) -> Summary:
    """Return the accuracy in each region, with that of the best baseline."""
    from cadmus.figures.grid_regions import table

    columns = ("Region", "Programs", "Accuracy", "Best baseline")
    return Summary("comparators predicted, with 95% intervals", table(results).select(columns))


EXPERIMENT = Experiment(
    measure=measure,
    seconds=40,
    columns={
        "x": VALUE,
        "y": VALUE,
        "programs": COUNT,
        "correct": COUNT.or_null(),
        **dict.fromkeys(PREDICTIONS, COUNT.or_null()),
        **dict.fromkeys(LEARNED, COUNT.or_null()),
        "in_distribution": FLAG,
        "balanced": FLAG,
    },
    rules={
        "correct: must be at most programs": pl.col("correct") <= pl.col("programs"),
        "correct, less, equal, greater: must be known of all programs": (
            pl.all_horizontal(pl.col("correct", *PREDICTIONS).is_not_null()) | (pl.col("programs") == 0)
        ),
        "programs: must be above 0 in some row": (pl.col("programs") > 0).any(),
    },
    metrics=metrics,
    summary=summarize,
    figures=(
        Figure(
            "comparison_grid",
            "Accuracy at the comparator and the token predicted most often, for test programs that compare X "
            "and Y. The dashed square is the training range; dotted lines bound the regions, whose accuracy "
            "with intervals, baselines and the paper's are in the table grid_regions.",
        ),
        Figure(
            "grid_regions",
            "Accuracy at the comparator by the positions of X and Y relative to the training range, with 95% "
            "bootstrap intervals over pairs (X, Y). The gap is the accuracy minus that of the best baseline, "
            "in percentage points. No baseline knows the region; the constant is one for the whole grid. "
            "Always `=` would solve all of the region X = Y, and nothing in the others outside. In balanced "
            "programs, however their operators are arranged, each comparator is as frequent as the others.",
            "table",
        ),
    ),
)
