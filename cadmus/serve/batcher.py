"""Decoding of concurrent requests in one batch."""

import threading
from dataclasses import dataclass, field

import numpy as np
import torch
from starlette.requests import ClientDisconnect

from cadmus import isa
from cadmus.model.inference import Cadmus, Choose
from cadmus.programs import Programs, stack


@dataclass
class _Job:
    prompts: Programs
    limits: np.ndarray
    choose: Choose
    abandoned: threading.Event
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

    def complete(
        self, prompts: Programs, limits: np.ndarray, choose: Choose, abandoned: threading.Event
    ) -> tuple[Programs, np.ndarray]:
        """Complete prompts unless the client has left.

        The other arguments, the result and the errors are those of :meth:`Cadmus.complete`.

        Raises:
            ClientDisconnect: ``abandoned`` is set.
        """
        job = _Job(prompts, limits, choose, abandoned)
        with self._guard:
            self._waiting.append(job)
        with self._turn:
            if job.completed is None and job.error is None:
                with self._guard:
                    jobs, self._waiting = self._waiting, []
                self._decode([job for job in jobs if not job.abandoned.is_set()])
        if job.abandoned.is_set():
            raise ClientDisconnect
        if job.error is not None:
            raise job.error
        assert job.completed is not None
        return job.completed

    def _decode(self, jobs: list[_Job]) -> None:
        if not jobs:
            return
        bounds = np.cumsum([0, *(len(job.prompts) for job in jobs)])

        def choose(logits: torch.Tensor, rows: np.ndarray) -> np.ndarray:
            chosen = np.empty(len(rows), np.int64)
            owners = np.searchsorted(bounds, rows, "right") - 1
            for owner in np.unique(owners):
                mine = np.flatnonzero(owners == owner)
                job = jobs[owner]
                # The end, for a client that has left: its rows leave the batch.
                chosen[mine] = (
                    isa.END_ID
                    if job.abandoned.is_set()
                    else job.choose(logits[mine], rows[mine] - bounds[owner])
                )
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
