"""Computing responses in threads, with a bounded queue and without clients that have left."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from anyio import CancelScope, CapacityLimiter, to_thread
from starlette.requests import ClientDisconnect, Request

from cadmus.errors import CadmusError

T = TypeVar("T")
RETRY = {"Retry-After": "1"}
"""Header of the response to :class:`Overloaded`."""


class Overloaded(CadmusError):
    """The queue is full."""


class Work:
    """The requests of a server.

    Args:
        at_once: maximum number of requests that are computed at once.
        limit: maximum number of requests that are read, waiting or computed.
    """

    def __init__(self, at_once: int, limit: int) -> None:
        self._limiter, self._limit, self._count = CapacityLimiter(at_once), limit, 0

    @contextmanager
    def admitted(self) -> Iterator[None]:
        """Count a request inside the block.

        Raises:
            Overloaded: there are too many.
        """
        if self._count >= self._limit:
            raise Overloaded(f"the server has {self._limit} requests to answer; try again later")
        self._count += 1
        try:
            yield
        finally:
            self._count -= 1

    async def run(self, request: Request, compute: Callable[[threading.Event], T]) -> T:
        """Return ``compute(abandoned)`` from a thread; ``abandoned`` is set when the client leaves.

        Raises:
            ClientDisconnect: the client left before the computation began. Later it raises this itself.
        """
        abandoned = threading.Event()
        # A thread is not cancelled, only the wait for its turn.
        with CancelScope() as waiting:
            watch = asyncio.create_task(_watch(request, abandoned, waiting))
            try:
                return await to_thread.run_sync(compute, abandoned, limiter=self._limiter)
            finally:
                watch.cancel()
        raise ClientDisconnect


async def _watch(request: Request, abandoned: threading.Event, waiting: CancelScope) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    abandoned.set()
    waiting.cancel()
