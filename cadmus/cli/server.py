"""Server shared by ``cadmus serve`` and ``cadmus explore``: listen, run, stop."""

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


def port_option(default: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the option --port."""
    return click.option(
        "--port",
        default=default,
        show_default=True,
        type=WholeNumber(0, 65535),
        metavar="PORT",
        help="Port to listen on; 0 for any free one.",
    )


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens on a host and port.

    Raises:
        InputError: the address does not exist, or is in use.
    """
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.create_server(address[:2], family=family)
    except (OSError, UnicodeError) as error:
        # create_server appends the address, which the message already has.
        reason = str(getattr(error, "strerror", error)).partition(" (while")[0]
        raise InputError(f"cannot listen on {host}, port {port}: {reason}; choose another --port") from None
    # Headers and body are sent separately; Nagle's algorithm would delay the body by 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def address_of(listener: socket.socket, host: str) -> str:
    """Return the URL of a server, such as ``http://127.0.0.1:8000``."""
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listener.getsockname()[1]}"


def run_server(app: "Starlette", listener: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM.

    The signal is raised again for :func:`stoppable` when the requests in progress are finished.
    """
    from cadmus.web.connections import run

    run(app, listener)


@contextmanager
def stoppable() -> Iterator[None]:
    """Exit with code 0 on SIGINT or SIGTERM, inside the block or the decorated command."""
    former = {number: signal.signal(number, _leave) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def _leave(number: int, frame: FrameType | None) -> None:
    # A C callback, or an import that catches everything, would swallow an exception.
    os._exit(0)
