"""``cadmus serve``."""

import socket
from pathlib import Path

import click

from cadmus.cli.options import device_option, echo, model_option, usable_device
from cadmus.cli.server import address_of, listening, port_option, run_server, stoppable
from cadmus.model import named_or_default


@click.command()
@model_option
@click.option("--host", default="127.0.0.1", show_default=True, metavar="HOST", help="Address to listen on.")
@port_option(8000)
@click.option("--name", metavar="NAME", help="Name of the model in requests; by default its directory's.")
@click.option(
    "--allow-host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="Name under which clients reach the server, such as that of a proxy. Can be repeated.",
)
@device_option
@stoppable()
def serve(
    directory: Path | None, host: str, port: int, name: str | None, hosts: tuple[str, ...], device: str | None
) -> None:
    """Serve a model with the OpenAI completions API until Ctrl-C.

    Responses can include log-probabilities. Without --model, it serves the shipped model. There is
    no authentication, so anyone who reaches the port can use it. docs/serve.md lists what is supported.

    \b
    Examples:
      cadmus serve
      cadmus serve --model results/quick/model --port 8001
    """
    directory = named_or_default(directory)
    if name is None:
        name = directory.resolve().name
    from cadmus.model.inference import Cadmus

    model = Cadmus.load(directory, usable_device(device))
    with listening(host, port) as listener:
        from cadmus.serve.application import application

        app = application(model, name, model.max_length, {host, socket.gethostname(), *hosts})
        # PyTorch's first run is slow; the first client should not wait for it.
        model.complete(["1"])
        echo(f"{name} is served at {address_of(listener, host)}/v1 (Ctrl-C stops)")
        run_server(app, listener)
