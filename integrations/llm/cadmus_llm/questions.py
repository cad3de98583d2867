"""The questions to large language models: programs, in each alphabet, after examples."""

import numpy as np
import polars as pl

from cadmus.config import Config
from cadmus.dataset.splits import TRAIN
from cadmus.errors import InputError
from cadmus.evaluate.prompts.comparisons import balanced_comparisons, grid_programs, values_of
from cadmus.evaluate.prompts.language_models import EXAMPLES, prompt
from cadmus.programs import Programs
from cadmus.templates.expressions import HALF
from cadmus.tools import generator
from cadmus_llm.models import LanguageModel
from cadmus_llm.settings import Settings


def questions(settings: Settings, config: Config, model: LanguageModel) -> pl.DataFrame:
    """Return what a model is asked about a run: alphabet, shots, in_grid, x, y, program, limit and prompt.

    ``programs`` balanced comparisons of the test split are asked in every alphabet, after every number of
    examples from the training split. With ``grid``, one program for every pair of values in range is
    asked too, in every alphabet, after the fewest. A model is asked once at the largest limit, unless it
    reads it; a choice is one token.
    """
    balanced = balanced_comparisons(generator(config.seed, "llm"), settings.programs, config.dataset)
    if len(balanced) < settings.programs:
        problem = f"only {len(balanced)} balanced test comparisons were found, not {settings.programs}"
        raise InputError(f"programs: {problem}")
    x, y = values_of(balanced)
    comparisons = _table(x, y, balanced)
    sets = [(comparisons, False, shots) for shots in settings.shots]
    if settings.grid:
        sets.append((_grid(config), True, min(settings.shots)))
    rng = generator(config.seed, "llm shots")
    training = balanced_comparisons(rng, max(settings.shots), config.dataset, TRAIN).to_strings()
    limits = sorted(settings.max_output_tokens) if model.reads_limit else [max(settings.max_output_tokens)]
    if model.answer == "choice":
        limits = [1]
    parts = []
    for alphabet in settings.alphabets:
        for programs, in_grid, shots in sets:
            examples = [*EXAMPLES, *training[:shots]]
            texts = [prompt(program[: 2 * HALF], alphabet, examples) for program in programs["program"]]
            columns = {"alphabet": pl.lit(alphabet), "shots": pl.lit(shots), "in_grid": pl.lit(in_grid)}
            written = programs.with_columns(**columns, prompt=pl.Series(texts))
            parts += [written.with_columns(limit=pl.lit(limit)) for limit in limits]
    return pl.concat(parts).select("alphabet", "shots", "in_grid", "x", "y", "program", "limit", "prompt")


def most_usd(model: LanguageModel, asked: pl.DataFrame) -> float:
    """Return a bound on the cost: every answer reaches its limit, and a token has two bytes."""
    return model.usd(int(asked["prompt"].str.len_bytes().sum()) / 2, int(asked["limit"].sum()))


def _table(x: np.ndarray, y: np.ndarray, programs: Programs) -> pl.DataFrame:
    return pl.DataFrame({"x": x, "y": y, "program": programs.to_strings()})


def _grid(config: Config) -> pl.DataFrame:
    """Return the first program of each pair of values in range of Cadmus's own grid."""
    x, y, programs, pair = grid_programs(config)
    low, high = config.dataset.values.low, config.dataset.values.high
    first = np.flatnonzero(np.diff(pair, prepend=-1))
    comparisons = _table(x[pair[first]], y[pair[first]], programs.take(first))
    inside = comparisons.filter(pl.all_horizontal(pl.col("x", "y").is_between(low, high)))
    if inside.is_empty():
        values = f"values in dataset.values, {low} to {high}"
        raise InputError(f"grid: evaluate.grid has no test comparison with both {values}; widen the grid")
    return inside
