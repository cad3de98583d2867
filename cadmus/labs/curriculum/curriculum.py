"""A curriculum, no term of the loss; with the order ``solving``, how often the model solves each template.

Before some of the steps, it answers the questions of each template on training programs, greedily, and
its completions are graded as in Table 3.
"""

from typing import Any

import numpy as np

from cadmus.config import TEMPLATES, Config
from cadmus.evaluate.criteria import Completed
from cadmus.evaluate.questions import questions_of
from cadmus.labs.curriculum.order import Groups
from cadmus.labs.curriculum.settings import Curriculum as Settings
from cadmus.model.flops import causal_pairs, training_flops
from cadmus.programs import Samples, concat, join
from cadmus.tools import generator
from cadmus.train.loader import Batch
from cadmus.train.objectives.objective import Objective, Setting
from cadmus.train.objectives.sampler import Sampler
from cadmus.train.order import Order

MEASUREMENTS = 32
"""Number of these steps, in equal intervals from the first."""
PROGRAMS = 32
"""Programs that are asked each question, over all ranks; the same ones each time."""
POOL = 2_000
"""Training programs of each template, from the first, from which they are drawn."""


class Curriculum(Objective):
    """Orders the programs; for the order ``solving`` counts the completions that solve a question."""

    @classmethod
    def order(cls, run: Config, training_set: Samples, seed: int) -> Order:
        return Groups(training_set, seed, run)

    def __init__(self, setting: Setting) -> None:
        self._measures = Settings.below(setting.run.train).order == "solving"
        if self._measures:
            self.names = ("rates",)
            # FLOPs, and the solved and all completions of each template.
            self.size = 1 + 2 * len(TEMPLATES)
        super().__init__(setting)
        if self._measures:
            self._prepare(setting)

    def _prepare(self, setting: Setting) -> None:
        """Choose the programs that are asked."""
        self._run, self._sampler = setting.run, Sampler(setting)
        self._interval = -(-self._run.train.steps // MEASUREMENTS)
        rng = generator(setting.seed, "rates", setting.place.rank)
        self._tasks = []
        for number, template in enumerate(TEMPLATES):
            if not getattr(self._run.dataset.templates, template).train:
                continue
            samples = next(iter(setting.read([template])))
            samples = samples.take(np.arange(min(POOL, len(samples))))
            for question in questions_of(template).values():
                rows, prompt_length = question.cut(samples)
                if len(rows):
                    chosen = rng.integers(len(rows), size=-(-PROGRAMS // self.ranks))
                    programs = samples.programs.take(rows[chosen])
                    self._tasks.append((number, question, programs, prompt_length[chosen]))

    def start(self, step: int) -> None:
        super().start(step)
        if not self._measures or step % self._interval:
            return
        programs = concat([programs for _, _, programs, _ in self._tasks])
        lengths = np.concatenate([prompt_length for *_, prompt_length in self._tasks])
        prompts = programs.prefixes(lengths)
        limits = np.full(len(prompts), self._run.dataset.max_length)
        completions, ended = self._sampler.complete(step, prompts, limits)
        last = 0
        for number, question, references, prompt_length in self._tasks:
            first, last = last, last + len(references)
            rows = np.arange(first, last)
            written = completions.take(rows), ended[rows]
            solved = question.solves(Completed(references, prompt_length, *written, self._run.dataset))
            self.sums[1 + 2 * number] += int(solved.sum())
            self.sums[2 + 2 * number] += len(solved)
        # A forward pass is a third of training.
        computed = join(prompts, completions).lengths
        pairs = int(causal_pairs(computed).sum())
        self.sums[0] = training_flops(self._run.model, int(computed.sum()), pairs) / 3

    def metrics(self, step: int, sums: list[float], batch: Batch) -> dict[str, Any]:
        if not self._measures or step % self._interval:
            return {}
        flops, *counts = sums
        pairs = zip(TEMPLATES, np.reshape(counts, (-1, 2)).tolist(), strict=True)
        return {
            "rates": {name: solved / count if count else None for name, (solved, count) in pairs},
            "flops": flops,
        }


OBJECTIVE = Curriculum
