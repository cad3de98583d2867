"""``cadmus serve``."""

import signal
import socket
import sys
from pathlib import Path
from types import FrameType

import click

from cadmus.cli.options import (
    device_option,
    load_with_length,
    model_option,
    named_or_default,
    usable_device,
)
from cadmus.errors import InputError

GRACE = 30
"""Seconds that requests have to be finished when the server is stopped."""


@click.command()
@model_option
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    default=8000,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Port to listen on; 0 for any that is free.",
)
@click.option("--name", help="What requests call the model; the name of its directory if left out.")
@device_option
def serve(directory: Path | None, host: str, port: int, name: str | None, device: str | None) -> None:
    """Answer the OpenAI API for completions, with log-probabilities, until Ctrl-C.

    Without --model it is the model that comes with the checkout, in models/laptop. There is no
    authentication: whoever reaches the port may ask. docs/serve.md says what is supported.

    \b
    Examples:
      cadmus serve
      cadmus serve --model results/quick/model --port 8001
    """
    directory = named_or_default(directory)
    if name is None:
        name = directory.resolve().name
    model, max_length = load_with_length(directory, usable_device(device))
    with _listening(host, port) as listener:
        import uvicorn

        from cadmus.serve import application

        app = application(model, name, max_length)
        settings = uvicorn.Config(
            app, lifespan="off", log_level="warning", access_log=False, timeout_graceful_shutdown=GRACE
        )
        # Uvicorn finishes what it is at, and then raises the signal once more.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, _leave)
        shown = f"[{host}]" if ":" in host else host
        click.echo(f"{name} is served at http://{shown}:{listener.getsockname()[1]}/v1 (Ctrl-C stops)")
        uvicorn.Server(settings).run([listener])


def _listening(host: str, port: int) -> socket.socket:
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.create_server(address[:2], family=family)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", error)
        raise InputError(f"cannot listen on --host {host} --port {port}: {reason}; choose others") from None
    # Head and body of an answer are sent apart; the second would wait 40 ms for word that the first came.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _leave(number: int, frame: FrameType | None) -> None:
    sys.exit(0)


COMMANDS = (serve,)
