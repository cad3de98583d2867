"""Uvicorn with timeouts and a limit of open connections.

Uvicorn alone waits for a request forever and accepts connections until file descriptors run out.
"""

import asyncio
import math
import resource
import socket
from typing import TYPE_CHECKING

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    from starlette.applications import Starlette

GRACE = 30
"""Seconds for requests in progress when the server is stopped."""
PATIENCE = 30.0
"""Seconds for a request to arrive in full, and for a client to read some more of its response."""
MAX_CONNECTIONS = 512
PENDING = 512
"""Connections that the kernel holds until they are accepted."""
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
)


def run(app: "Starlette", listener: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM; finish the requests in progress, then raise the signal again."""
    settings = uvicorn.Config(
        app,
        loop="asyncio",
        http=Connection,
        ws="none",
        lifespan="off",
        # A warning per bad request would let any client fill the disk.
        log_level="error",
        access_log=False,
        timeout_graceful_shutdown=GRACE,
        # asyncio accepts so many connections before it counts the first one.
        backlog=1,
        # Otherwise uvicorn asks whether standard output is a terminal, which fails if it is closed.
        use_colors=False,
    )
    _Server(settings).run([listener])


class _Server(uvicorn.Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or []:
            listener.listen(PENDING)


class Connection(H11Protocol):
    """A connection that is closed if its client is too slow, or if it is idle and others need its place."""

    _aborted = False
    _since = math.inf
    _unsent = math.inf
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        super().connection_made(transport)
        self._start_timer()
        others = [other for other in self.connections if isinstance(other, Connection) and other is not self]
        if sum(not other._aborted for other in others) < _limit():
            return
        idle = [other for other in others if other._idle()]
        if idle:
            min(idle, key=lambda other: other._since)._abort()
        else:
            transport.write(_FULL)
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        super().handle_events()
        if self._computing():
            self._stop_timer()

    def on_response_complete(self) -> None:
        # The next request may have arrived already.
        self._start_timer()
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._start_timer()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_timer()
        if not self._computing():
            self._start_timer()

    def _computing(self) -> bool:
        """Return True from the end of a request to the end of its response."""
        return self.cycle is not None and not self.cycle.more_body and not self.cycle.response_complete

    def _idle(self) -> bool:
        return not (self._aborted or self._computing() or self.transport.get_write_buffer_size())

    def _abort(self) -> None:
        self._aborted = True
        self.transport.abort()

    def _start_timer(self) -> None:
        self._stop_timer()
        self._since, self._unsent = self.loop.time(), math.inf
        self._timer = self.loop.call_later(PATIENCE, self._check)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _check(self) -> None:
        unsent = self.transport.get_write_buffer_size()
        if 0 < unsent < self._unsent:
            self._unsent = unsent
            self._timer = self.loop.call_later(PATIENCE, self._check)
        else:
            self._abort()


def _limit() -> int:
    """Return the maximum number of connections; PyTorch, files and connections being closed need the rest."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_CONNECTIONS if descriptors < 0 else min(MAX_CONNECTIONS, descriptors // 3)
