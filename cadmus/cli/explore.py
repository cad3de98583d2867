"""``cadmus explore``."""

import os
import sys
from pathlib import Path

import click

from cadmus.cli.options import device_option, echo, model_option, usable_device
from cadmus.cli.server import address_of, listening, port_option, run_server, stoppable
from cadmus.model import named_or_default

LOOPBACK = "127.0.0.1"


@click.command()
@model_option
@port_option(8765)
@click.option("--browser/--no-browser", default=True, help="Open the page in a browser, or only serve it.")
@device_option
@stoppable()
def explore(directory: Path | None, port: int, browser: bool, device: str | None) -> None:
    """Serve an interactive explorer of a model.

    Only this machine can open it. Ctrl-C ends it.

    Type a program or sample one, step through its execution, and see the model's predictions by layer (logit
    lens) and the attention of each head. Without --model, it shows the shipped model.

    \b
    Examples:
      cadmus explore
      cadmus explore --model results/quick/model --no-browser
    """
    directory = named_or_default(directory)
    with listening(LOOPBACK, port) as listener:
        from cadmus.explore.application import application
        from cadmus.explore.inspection import inspect
        from cadmus.model.export import trained_config
        from cadmus.model.inference import Cadmus

        model = Cadmus.load(directory, usable_device(device))
        app = application(model, directory.resolve().name, trained_config(directory))
        # PyTorch's first run is slow; the first user should not wait for it.
        inspect(model, "0")
        address = address_of(listener, LOOPBACK)
        echo(f"explore {directory} at {address} (Ctrl-C stops)")
        if browser and _has_screen():
            click.launch(address)
        run_server(app, listener)


def _has_screen() -> bool:
    """Return False if a browser would open in the terminal."""
    return sys.platform in ("darwin", "win32") or bool({"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys())
