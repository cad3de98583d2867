"""Decoding of concurrent requests in one batch.

While a batch is decoded, other requests wait; those that have come by its end are the next batch. Completions
do not depend on what else is in a batch.
"""

import asyncio
from typing import NamedTuple

import numpy as np
import torch
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request

from cadmus.model.inference import Cadmus, Choose
from cadmus.programs import Programs, stack

AT_ONCE = 64
"""Maximum number of requests in a batch."""
Completed = tuple[Programs, np.ndarray]
"""The result of :meth:`Cadmus.complete`: completions, and whether each of them ended."""


class _Job(NamedTuple):
    request: Request
    prompts: Programs
    limits: np.ndarray
    choose: Choose
    completed: asyncio.Future[Completed]


class Batcher:
    """Completes the prompts of all requests that wait; the first of them decodes for the others."""

    def __init__(self, model: Cadmus) -> None:
        self._model, self._turn, self._waiting = model, asyncio.Lock(), list[_Job]()

    async def complete(
        self, request: Request, prompts: Programs, limits: np.ndarray, choose: Choose
    ) -> Completed:
        """Complete prompts as :meth:`Cadmus.complete` does, unless the client has left by then."""
        job = _Job(request, prompts, limits, choose, asyncio.get_running_loop().create_future())
        self._waiting.append(job)
        async with self._turn:
            if not job.completed.done():
                jobs, self._waiting = self._waiting[:AT_ONCE], self._waiting[AT_ONCE:]
                await self._decode(jobs)
        return await job.completed

    async def _decode(self, jobs: list[_Job]) -> None:
        for job in jobs:
            if await job.request.is_disconnected():
                job.completed.set_exception(ClientDisconnect())
        jobs = [job for job in jobs if not job.completed.done()]
        if not jobs:
            return
        try:
            completions, ended = await run_in_threadpool(
                self._model.complete,
                stack([job.prompts for job in jobs]),
                np.concatenate([job.limits for job in jobs]),
                _chooser(jobs),
            )
        except Exception as error:
            for job in jobs:
                job.completed.set_exception(error)
            return
        start = 0
        for job in jobs:
            rows = np.arange(start, start + len(job.prompts))
            job.completed.set_result((completions.take(rows), ended[rows]))
            start += len(rows)


def _chooser(jobs: list[_Job]) -> Choose:
    """Return a function that lets each job choose the instructions of its own rows."""
    starts = np.cumsum([0, *(len(job.prompts) for job in jobs)])

    def choose(logits: torch.Tensor, rows: np.ndarray) -> np.ndarray:
        chosen = np.empty(len(rows), np.int64)
        owners = np.searchsorted(starts, rows, "right") - 1
        for owner in np.unique(owners):
            own = np.flatnonzero(owners == owner)
            chosen[own] = jobs[owner].choose(logits[own], rows[own] - starts[owner])
        return chosen

    return choose
