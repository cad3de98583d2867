"""What ``cadmus serve`` and ``cadmus explore`` share: a server on this machine until it is stopped."""

import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from cadmus.cli.options import WholeNumber
from cadmus.errors import InputError

if TYPE_CHECKING:
    from starlette.applications import Starlette

GRACE = 30
"""Seconds that requests have to be finished when the server is stopped."""


def port_option(default: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The option --port."""
    return click.option(
        "--port",
        default=default,
        show_default=True,
        type=WholeNumber(0, 65535),
        metavar="PORT",
        help="Port to listen on; 0 for any that is free.",
    )


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens there.

    Raises:
        InputError: it cannot.
    """
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.create_server(address[:2], family=family)
    except (OSError, UnicodeError) as error:
        # What create_server adds to the reason says the same address again.
        reason = str(getattr(error, "strerror", error)).partition(" (while")[0]
        raise InputError(f"cannot listen on {host}, port {port}: {reason}; choose another") from None
    # Head and body of an answer are sent apart; the second would wait 40 ms for word that the first came.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def address_of(listener: socket.socket, host: str) -> str:
    """The address to ask, such as ``http://127.0.0.1:8000``."""
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listener.getsockname()[1]}"


def run_server(app: "Starlette", listener: socket.socket) -> None:
    """Answer requests until SIGINT or SIGTERM.

    Uvicorn finishes the requests in progress and then raises the signal again for :func:`stoppable`.
    """
    import uvicorn

    settings = uvicorn.Config(
        app, lifespan="off", log_level="warning", access_log=False, timeout_graceful_shutdown=GRACE
    )
    uvicorn.Server(settings).run([listener])


@contextmanager
def stoppable() -> Iterator[None]:
    """Exit with code 0 on SIGINT or SIGTERM; as a decorator, for the whole body of a command."""
    former = {number: signal.signal(number, _leave) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def _leave(number: int, frame: FrameType | None) -> None:
    # An exception would be lost in a module that catches everything, or in a callback from C.
    os._exit(0)
