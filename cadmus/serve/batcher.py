"""Decoding of concurrent requests in one batch."""

import threading
from dataclasses import dataclass, field

import numpy as np
import torch

from cadmus.model.inference import Cadmus, Choose
from cadmus.programs import Programs, stack


@dataclass
class _Job:
    prompts: Programs
    limits: np.ndarray
    choose: Choose
    completed: tuple[Programs, np.ndarray] | None = None
    error: Exception | None = field(default=None)


class Batcher:
    """Completes the prompts of all threads that wait in one batch.

    The first thread decodes for itself; those that come meanwhile wait, and one of them decodes for all.
    Completions do not depend on what else is in the batch.
    """

    def __init__(self, model: Cadmus) -> None:
        self._model = model
        self._turn, self._guard = threading.Lock(), threading.Lock()
        self._waiting: list[_Job] = []

    def complete(self, prompts: Programs, limits: np.ndarray, choose: Choose) -> tuple[Programs, np.ndarray]:
        """Complete prompts; arguments, result and errors are those of :meth:`Cadmus.complete`."""
        job = _Job(prompts, limits, choose)
        with self._guard:
            self._waiting.append(job)
        with self._turn:
            if job.completed is None and job.error is None:
                with self._guard:
                    jobs, self._waiting = self._waiting, []
                self._decode(jobs)
        if job.error is not None:
            raise job.error
        assert job.completed is not None
        return job.completed

    def _decode(self, jobs: list[_Job]) -> None:
        bounds = np.cumsum([0, *(len(job.prompts) for job in jobs)])

        def choose(logits: torch.Tensor, rows: np.ndarray) -> np.ndarray:
            chosen = np.empty(len(rows), np.int64)
            owners = np.searchsorted(bounds, rows, "right") - 1
            for owner in np.unique(owners):
                mine = np.flatnonzero(owners == owner)
                chosen[mine] = jobs[owner].choose(logits[mine], rows[mine] - bounds[owner])
            return chosen

        try:
            completions, ended = self._model.complete(
                stack([job.prompts for job in jobs]), np.concatenate([job.limits for job in jobs]), choose
            )
        except Exception as error:
            for job in jobs:
                job.error = error
            return
        for number, job in enumerate(jobs):
            rows = np.arange(bounds[number], bounds[number + 1])
            job.completed = completions.take(rows), ended[rows]
