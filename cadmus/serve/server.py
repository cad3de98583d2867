"""The HTTP server of ``cadmus serve`` and ``cadmus explore``.

Neither asks for a password. A web page of another site must not reach them through the user's browser:
Starlette refuses a foreign Host header (DNS rebinding), and :func:`without_cross_site` refuses requests
that the browser marks as cross-site. Starlette limits the size of a body, and uvicorn the number of
connections. Errors have OpenAI's format.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from threading import Event, Thread
from urllib.parse import urlsplit

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cadmus.errors import InputError

MAX_BYTES = 2 << 20
"""Maximum size of a request body."""
MAX_CONNECTIONS = 256
"""Open connections from which uvicorn answers requests with status 503."""
PATIENCE = 30
"""Seconds for a body to arrive, between two requests of a connection, and for responses after Ctrl-C."""


class ApiError(HTTPException):
    """An error response in OpenAI's format: the problem and the fix, the field at fault, OpenAI's code."""

    def __init__(
        self, message: str, param: str | None = None, status: int = 400, code: str | None = None
    ) -> None:
        super().__init__(status, f"{param}: {message}" if param else message)
        self.param, self.code = param, code


def without_cross_site(app: ASGIApp) -> ASGIApp:
    """Refuse requests that a page of another site makes a browser send, images and links included.

    Browsers say so in Sec-Fetch-Site. Those before 2023 only send Origin, and not with every request.
    """
    refusal = PlainTextResponse("requests from pages of other sites are refused", 403)

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        refused = scope["type"] == "http" and _is_cross_site(Headers(scope=scope))
        await (refusal if refused else app)(scope, receive, send)

    return guarded


def with_headers(app: ASGIApp, headers: Mapping[str, str]) -> ASGIApp:
    """Add headers to every response."""

    async def adding(scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(headers)
            await send(message)

        await app(scope, receive, sending)

    return adding


def _is_cross_site(headers: Headers) -> bool:
    if site := headers.get("sec-fetch-site"):
        return site == "cross-site"
    origin = headers.get("origin")
    try:
        return origin is not None and urlsplit(origin).hostname != urlsplit(f"//{headers['host']}").hostname
    except ValueError:
        return True


def application(routes: Sequence[BaseRoute], hosts: Iterable[str] = ()) -> Starlette:
    """Return an application for :func:`run`; an :class:`InputError` of an endpoint gets status 400.

    ``hosts`` are values of the Host header to accept besides this machine's, such as ``*.example.com``.
    """
    trusted = Middleware(TrustedHostMiddleware, allowed_hosts=["localhost", "127.0.0.1", "[::1]", *hosts])
    return Starlette(
        routes=routes,
        middleware=[trusted, Middleware(without_cross_site)],
        exception_handlers=dict.fromkeys((HTTPException, InputError, ClientDisconnect, Exception), _error),
        max_body_size=MAX_BYTES,
    )


def _error(request: Request, error: Exception) -> JSONResponse:
    status, headers, message = 500, None, "the server failed on this request; see its output"
    if isinstance(error, HTTPException):
        status, headers, message = error.status_code, error.headers, error.detail
        if not isinstance(error, ApiError):
            message = f"{request.method} {request.url.path}: {message}"
    elif isinstance(error, InputError | ClientDisconnect):
        # Nobody reads the response to a client that has left; without one, Starlette prints a traceback.
        status, message = 400, str(error)
    body = {
        "message": message,
        "type": "invalid_request_error" if status < 500 else "server_error",
        "param": getattr(error, "param", None),
        "code": getattr(error, "code", None),
    }
    return JSONResponse({"error": body}, status, headers)


async def body_of(request: Request) -> bytes:
    """Return the body of a request, which must arrive within :data:`PATIENCE`."""
    try:
        async with asyncio.timeout(PATIENCE):
            return await request.body()
    except TimeoutError:
        raise ApiError(f"the body did not arrive within {PATIENCE} s", status=408) from None


def literal(host: str) -> str:
    """Return a host as URLs and the Host header write it: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


def run(
    app: Starlette,
    host: str,
    port: int,
    announce: Callable[[str], None],
    prepare: Callable[[], None] | None = None,
    ready: Event | None = None,
) -> None:
    """Serve until Ctrl-C, then finish the requests in progress; port 0 is any free one.

    ``announce`` gets the URL of the server once it accepts connections. Then ``prepare`` is called next to
    it, and ``ready`` set at its end; if it fails, so does the server.
    """
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.create_server(address[:2], family=family)
    except (OSError, UnicodeError) as error:
        # create_server appends the address, which the message already has.
        reason = str(getattr(error, "strerror", error)).partition(" (while")[0]
        raise InputError(f"cannot listen on {host}, port {port}: {reason}; choose another --port") from None
    config = uvicorn.Config(
        app,
        loop="asyncio",
        http="h11",
        ws="none",
        lifespan="off",
        # A warning per bad request would let any client fill the disk.
        log_level="error",
        access_log=False,
        # Otherwise uvicorn asks whether standard output is a terminal, which fails if it is closed.
        use_colors=False,
        # asyncio accepts as many connections at a time.
        backlog=MAX_CONNECTIONS,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_keep_alive=PATIENCE,
        timeout_graceful_shutdown=PATIENCE,
    )
    # Without free file descriptors, asyncio logs a traceback per connection that it cannot accept.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    with listener, suppress(KeyboardInterrupt):
        # Headers and body are sent separately; Nagle's algorithm would delay the body by 40 ms.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        announce(f"http://{literal(host)}:{listener.getsockname()[1]}")
        server, failed = uvicorn.Server(config), list[BaseException]()

        def preparing(prepare: Callable[[], None], ready: Event) -> None:
            try:
                prepare()
            except BaseException as error:
                failed.append(error)
                server.should_exit = True
            ready.set()

        if prepare is not None and ready is not None:
            Thread(target=preparing, args=(prepare, ready), daemon=True).start()
        # uvicorn raises the signal that stopped it again.
        server.run([listener])
        if failed:
            raise failed[0]
