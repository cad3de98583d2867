"""``cadmus explore``."""

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from cadmus.cli.options import DIRECTORY, echo, model_option
from cadmus.model import DEFAULT_MODEL, SNAPSHOTS, find_model


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
@click.option(
    "--port",
    default=8765,
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Port to listen on; 0 for any free one.",
)
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
    # PyTorch takes seconds to import.
    from cadmus.explore.files import serve
    from cadmus.explore.site import write_site
    from cadmus.model.export import read_metadata
    from cadmus.model.inference import Cadmus

    metadata, name = read_metadata(directory), directory.resolve().name

    def write(folder: Path) -> None:
        write_site(Cadmus.load(directory), name, metadata.config, folder, snapshots, documentation)

    def announce(url: str) -> None:
        echo(f"explore {directory} at {url} (Ctrl-C stops)")
        # Without a screen, a browser would open in the terminal.
        screen = sys.platform in ("darwin", "win32") or {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys()
        if browser and screen:
            click.launch(url)

    if static:
        write(static)
        echo(f"{static} is for any web server, such as `python -m http.server --directory {static}`")
        return
    with TemporaryDirectory() as folder:
        write(Path(folder))
        serve(Path(folder), port, announce)
