"""Options that several commands share."""

from pathlib import Path

import click

config_option = click.option(
    "--config",
    default=Path("config/quick.yaml"),
    show_default=True,
    type=click.Path(path_type=Path),
    help="The config file of the run.",
)
