"""Label-only programs: what is labeled and what is compared are two decisions.

Each is a pair of expressions, such as ``99*9-88*8-``, with the label of its state after every token and no
token to predict. Numbers that no training program compares then have a place in the state of a model too.
"""

from dataclasses import replace

import numpy as np

from cadmus import config
from cadmus.config import Dataset
from cadmus.dataset.splits import TRAIN, split_of
from cadmus.labs.numbers.settings import LabelOnly
from cadmus.programs import Programs, concat, join
from cadmus.templates.draw import comparator
from cadmus.templates.expressions import HALF, short_expressions
from cadmus.tools import generator
from cadmus.train.objectives.objective import Objective
from cadmus.train.packing import Drawn, Supervision

VALUES = (-60, 60)
"""Smallest and largest value of an expression, drawn uniformly."""
CLOSE = 3
"""Largest difference of the numbers of a close pair."""


def label_only(rng: np.random.Generator, n: int, settings: LabelOnly, dataset: Dataset) -> Programs:
    """Draw ``n`` pairs; none is the prompt of a comparison of another split."""
    table = short_expressions(HALF)
    values = np.arange(VALUES[0], VALUES[1] + 1)
    # Not every integer has an expression of this length.
    values = values[table.count(values) > 0]
    drawn: list[Programs] = []
    while sum(map(len, drawn)) < n:
        x, y = rng.choice(values, (2, n))
        if settings.close:
            near = x + rng.integers(-CLOSE, CLOSE + 1, n)
            y = np.where((rng.random(n) < settings.close) & np.isin(near, values), near, y)
        pairs = join(table.sample(rng, x), table.sample(rng, y))
        # A pair of another split would be a hint at its answer.
        split = split_of(join(pairs, comparator(x, y)), dataset.eval_fraction)
        drawn.append(pairs.take(np.flatnonzero(split == TRAIN)))
    return concat(drawn).take(np.arange(n))


class LabelOnlyPairs(Supervision):
    """Adds label-only programs to each batch."""

    def __init__(self, run: config.Config, seed: int) -> None:
        self._settings, self._run, self._seed = LabelOnly.below(run.train), run, seed

    def added(self, programs: int) -> int:
        return self._settings.count(programs)

    def draw(self, drawn: Drawn) -> Drawn:
        # A stream of the step alone: a resumed training draws the same ones.
        rng = generator(self._seed, "label only", drawn.step)
        added = self.added(self._run.train.programs_of(drawn.step))
        programs = label_only(rng, added, self._settings, self._run.dataset)
        none = np.zeros(added, np.int64)
        return replace(
            drawn,
            programs=concat([drawn.programs, programs]),
            prompt_lengths=np.append(drawn.prompt_lengths, none),
            targets=np.append(drawn.targets, none),
            completion_targets=np.append(drawn.completion_targets, none),
        )


class LabelOnlyPrograms(Objective):
    """Only adds programs; state supervision learns from them."""

    fixed = True

    @classmethod
    def supervision(cls, run: config.Config, seed: int) -> Supervision | None:
        pairs = LabelOnlyPairs(run, seed)
        return pairs if pairs.added(run.train.batch_size) else None


OBJECTIVE = LabelOnlyPrograms
