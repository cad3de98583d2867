"""Quality of the model while it trains: loss and accuracy on a few programs of the validation split."""

import numpy as np

from cadmus.config import TEMPLATES, Dataset
from cadmus.evaluate.criteria import Completed
from cadmus.evaluate.grading import tasks_of
from cadmus.model.gpt import GPT
from cadmus.model.inference import Cadmus
from cadmus.programs import Samples

PROGRAMS = 50
"""Programs of each template."""


class Validation:
    """Programs of the validation split and the questions that they are asked."""

    def __init__(self, samples: Samples, dataset: Dataset) -> None:
        templates = np.asarray(samples.template)
        first = [np.flatnonzero(templates == name)[:PROGRAMS] for name in TEMPLATES]
        self._samples, self._dataset = samples.take(np.concatenate(first)), dataset
        self._tasks = tasks_of(self._samples)

    def measure(self, model: GPT) -> dict[str, float]:
        """Return the mean loss over the tokens of completions, and the mean fraction solved per question."""
        cadmus = Cadmus(model, max_length=self._dataset.max_length)
        programs, prompts = self._samples.programs, self._samples.prompt_length.astype(np.int64)
        losses = cadmus.completion_losses(programs, prompts)
        solved = []
        for task in self._tasks:
            written = cadmus.complete(task.prompts)
            completed = Completed(task.programs, task.prompt_length, *written, self._dataset)
            solved.append(task.question.solves(completed).mean())
        return {
            # Each token counts the same: losses are means over a completion and its end.
            "validation_loss": float(np.average(losses, weights=programs.lengths - prompts + 1)),
            "validation_solved": float(np.mean(solved)),
        }
