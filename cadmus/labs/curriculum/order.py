"""Orders in which templates or levels join the training."""

import numpy as np

from cadmus.config import TEMPLATES, Config
from cadmus.labs.curriculum.settings import Curriculum
from cadmus.programs import Samples, offsets_of
from cadmus.tools import generator
from cadmus.train.order import Order
from cadmus.vm.compiled import count_executed, execute

STAGED = 0.5
"""Fraction of the steps after which all programs may be drawn."""
LEVELS = 10
"""Levels of each template, with as many programs each."""
_CHUNK = 100_000
"""Programs whose difficulty is computed at once."""


class Groups(Order):
    """Draws the programs of each step, with replacement, from groups with weights.

    The groups are the templates, or the levels of all templates.
    """

    def __init__(self, training_set: Samples, seed: int, run: Config) -> None:
        super().__init__(training_set, seed)
        self._steps = run.train.steps
        self._counts = np.array([getattr(run.dataset.templates, name).train for name in TEMPLATES])
        # The programs by group, if they are not read so.
        self._sorted: np.ndarray | None = None
        if Curriculum.below(run.train).order == "level":
            levels = levels_of(training_set, self._counts)
            self._counts, self._sorted = np.bincount(levels), np.argsort(levels, kind="stable")
        # Groups in the order in which they join.
        self._stages = np.flatnonzero(self._counts)

    def draw(self, step: int, batch_size: int) -> np.ndarray:
        """Return the indices of the programs of a step, counted from 0: int64, shape (batch_size,)."""
        rng, weights = generator(self.seed, "order", step), self.weights(step)
        groups = rng.choice(len(weights), batch_size, p=weights / weights.sum())
        indices = offsets_of(self._counts)[groups] + rng.integers(self._counts[groups])
        return indices if self._sorted is None else self._sorted[indices]

    def weights(self, step: int) -> np.ndarray:
        """Return the weights of the groups in a step, counted from 0: shape (groups,)."""
        joined = self._stages[: 1 + int(len(self._stages) * step / (STAGED * self._steps))]
        return np.where(np.isin(np.arange(len(self._counts)), joined), self._counts, 0)


def levels_of(training_set: Samples, counts: np.ndarray) -> np.ndarray:
    """Return the level of each program, 0 for the easiest tenth of its template: int64, shape (n,).

    Programs that execute more instructions are harder, then those with larger values before the last
    instruction, which compares them. In complete_algorithm, more examples come first: the entropy of the
    posterior takes 6 ms per program.
    """
    levels = np.empty(len(training_set), np.int64)
    for template, rows in zip(TEMPLATES, np.split(np.arange(len(levels)), np.cumsum(counts)), strict=False):
        chunks = np.array_split(rows, 1 + len(rows) // _CHUNK)
        keys = [_difficulty(training_set.take(chunk), template) for chunk in chunks]
        levels[rows[np.lexsort(np.hstack(keys))]] = np.arange(len(rows)) * LEVELS // max(1, len(rows))
    return levels


def _difficulty(samples: Samples, template: str) -> np.ndarray:
    """Return what decides the levels of programs, the most important key last: int64, shape (3, n)."""
    programs = samples.programs
    before = execute(programs.prefixes(programs.lengths - 1), 2 * np.arange(len(programs) + 1))
    values = abs(before.values.astype(np.int64)).sum(1).reshape(-1, 2).sum(1)
    examples = np.zeros_like(values)
    if template == "complete_algorithm":
        prompts = programs.prefixes(samples.prompt_length.astype(np.int64))
        # Each example has one call.
        examples = np.add.reduceat(np.isin(prompts.data, [*b"fFlmw"]), prompts.offsets[:-1], dtype=np.int64)
    return np.stack([values, count_executed(programs), -examples])
