"""Orders in which templates or levels join the training, or are drawn by how often the model solves them."""

from typing import Any

import numpy as np
from pydantic import Field

from cadmus.config import TEMPLATES, Config, validate
from cadmus.config.fields import Fraction
from cadmus.labs.curriculum.settings import Curriculum
from cadmus.programs import Samples, offsets_of
from cadmus.records import Record
from cadmus.tools import generator
from cadmus.train.order import Order
from cadmus.vm.compiled import count_executed, execute

STAGED = 0.5
"""Fraction of the steps after which all programs may be drawn."""
LEVELS = 10
"""Levels of each template, with as many programs each."""
SMALLEST = 0.01
"""Added to the weight of each template, so that none is left out."""
START = 0.5
"""Rate of solving of a template before it is measured."""
_DECAY = 0.5
"""Weight of the earlier measurements in a running mean."""
_CHUNK = 100_000
"""Programs whose difficulty is computed at once."""


class Rates:
    """Running means of the rates at which the model solves each template, after ``step`` steps.

    A batch is prepared before one step, on a GPU two, are finished; so ``history`` goes back by two.
    """

    def __init__(self) -> None:
        self.history: list[dict[str, float]] = [{}, {}, {}]
        self.step = 0

    def advance(self, rates: dict[str, float | None] | None) -> None:
        """Add those of the next step, None if it measures none; a template without programs has None."""
        means = dict(self.history[-1])
        for name, rate in (rates or {}).items():
            if rate is not None:
                means[name] = _DECAY * means.get(name, START) + (1 - _DECAY) * rate
        self.history, self.step = [*self.history[1:], means], self.step + 1

    def known(self, step: int) -> np.ndarray:
        """Return the rates on which the batch of a step depends: those after all but the last two before."""
        means = self.history[step - self.step]
        return np.array([means.get(name, START) for name in TEMPLATES])


class State(Record):
    """What a checkpoint has of the order ``solving``."""

    rates: list[dict[str, Fraction]] = Field(min_length=3, max_length=3)


class Groups(Order):
    """Draws the programs of each step, with replacement, from groups with weights.

    The groups are the templates, or the levels of all templates.
    """

    def __init__(self, training_set: Samples, seed: int, run: Config) -> None:
        super().__init__(training_set, seed)
        self._settings, self._steps, self._rates = Curriculum.below(run.train), run.train.steps, Rates()
        self.follows_training = self._settings.order == "solving"
        self._counts = np.array([getattr(run.dataset.templates, name).train for name in TEMPLATES])
        # The programs by group, if they are not read so.
        self._sorted: np.ndarray | None = None
        if self._settings.order == "level":
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
        if self.follows_training:
            rates = self._rates.known(step)
            return np.where(self._counts > 0, rates * (1 - rates) + SMALLEST, 0)
        joined = self._stages[: 1 + int(len(self._stages) * step / (STAGED * self._steps))]
        return np.where(np.isin(np.arange(len(self._counts)), joined), self._counts, 0)

    def advance(self, metrics: dict[str, Any]) -> None:
        if self.follows_training:
            self._rates.advance(metrics["rates"])

    def state(self) -> dict[str, Any] | None:
        return {"rates": self._rates.history} if self.follows_training else None

    def restore(self, state: dict[str, Any] | None, step: int) -> None:
        if self.follows_training:
            self._rates.history = validate(state, State, "the order of a checkpoint").rates
            self._rates.step = step


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
