"""``cadmus serve`` and ``cadmus explore``."""

import os
import socket
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event

import click

from cadmus.cli.options import DIRECTORY, device_option, echo, model_option, usable_device
from cadmus.errors import InputError
from cadmus.model import DEFAULT_MODEL, SNAPSHOTS, find_model

LOOPBACK = "127.0.0.1"
PORT_HELP = "Port to listen on; 0 for any free one."
PORT = click.IntRange(0, 65535)


@click.command()
@model_option
@click.option("--host", default=LOOPBACK, metavar="HOST", help="Address to listen on.")
@click.option("--port", default=8000, type=PORT, metavar="PORT", help=PORT_HELP)
@click.option("--name", metavar="NAME", help="Name of the model in requests; by default its directory's.")
@click.option(
    "--allow-host", "hosts", multiple=True, metavar="NAME", help="A name that clients use; repeatable."
)
@device_option
def serve(
    directory: Path | None,
    host: str,
    port: int,
    name: str | None,
    hosts: tuple[str, ...],
    device: str | None,
) -> None:
    """Serve a model with the OpenAI completions API until Ctrl-C.

    Without --model, it serves the shipped model. There is no authentication, so anyone who reaches the port
    can use it. docs/serve.md lists what is supported.

    \b
    Examples:
      cadmus serve
      cadmus serve --model results/quick/model --port 8001
    """
    for pattern in hosts:
        if "*" in pattern.removeprefix("*.") and pattern != "*":
            fix = "a * must be all of it, or the start, as in *.example.com"
            raise InputError(f"--allow-host {pattern}: {fix}")
    directory = find_model(directory)
    from cadmus.model.inference import Cadmus
    from cadmus.serve.completions import completion_server
    from cadmus.serve.server import literal, run

    name = name or directory.resolve().name
    model = Cadmus.load(directory, usable_device(device))
    # PyTorch's first run is slow; the first client should not wait for it.
    model.complete(["1"])
    app = completion_server(model, name, [literal(host), socket.gethostname(), *hosts])
    run(app, host, port, lambda url: echo(f"{name} is served at {url}/v1 (Ctrl-C stops)"))


@click.command()
@model_option
@click.option(
    "--snapshots",
    type=DIRECTORY,
    help="Snapshots of its training, to look at the model as it learned; the shipped model has some.",
)
@click.option(
    "--static", type=DIRECTORY, help="Write the site to this directory instead, for any web server."
)
@click.option("--documentation", metavar="URL", help="Address of the documentation, for a link in the page.")
@click.option("--port", default=8765, type=PORT, metavar="PORT", help=PORT_HELP)
@click.option("--browser/--no-browser", default=True, help="Open the page in a browser, or only serve it.")
def explore(
    directory: Path | None,
    snapshots: Path | None,
    static: Path | None,
    documentation: str | None,
    port: int,
    browser: bool,
) -> None:
    """Open an interactive explorer of a model. Only this machine can open it. Ctrl-C ends it.

    Type a program or take a task, step through its execution, and see the model's predictions by layer
    (logit lens) and the attention of each head. Machine and model run in the page. Without --model, it shows
    the shipped model.

    \b
    Examples:
      cadmus explore
      cadmus explore --model results/quick/model --no-browser
      cadmus explore --static site
    """
    directory = find_model(directory)
    if directory == DEFAULT_MODEL and SNAPSHOTS is not None and SNAPSHOTS.is_dir():
        snapshots = snapshots or SNAPSHOTS
    from starlette.routing import Mount
    from starlette.staticfiles import StaticFiles

    from cadmus.explore.files import headers, waiting, write_page
    from cadmus.serve.server import application, run, with_headers

    def announce(url: str) -> None:
        echo(f"explore {directory} at {url} (Ctrl-C stops)")
        # Without a screen, a browser would open in the terminal.
        screen = sys.platform in ("darwin", "win32") or {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys()
        if browser and screen:
            click.launch(url)

    def write(folder: Path) -> None:
        # PyTorch takes seconds to import.
        from cadmus.explore.site import check_sizes, write_site
        from cadmus.model.export import read_metadata
        from cadmus.model.inference import Cadmus

        metadata, name = read_metadata(directory), directory.resolve().name
        check_sizes(metadata.model, name)
        write_site(Cadmus.load(directory), name, metadata.config, folder, snapshots, documentation)

    if static:
        write(static)
        echo(f"{static} is for any web server, such as `python -m http.server --directory {static}`")
        return
    # A thread may still write there when Ctrl-C ends the server.
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        write_page(Path(folder))
        ready = Event()
        files = waiting(StaticFiles(directory=folder, html=True), ready)
        app = application([Mount("/", with_headers(files, headers()))])
        run(app, LOOPBACK, port, announce, lambda: write(Path(folder)), ready)
