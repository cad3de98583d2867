"""``cadmus readme``."""

from pathlib import Path

import click

from cadmus.cli.options import DIRECTORY, EXISTING, echo


@click.command()
@click.argument("results", type=DIRECTORY)
@click.option("--root", default=".", type=EXISTING, metavar="DIR", help="The checkout.")
def readme(results: Path, root: Path) -> None:
    """Publish the run in RESULTS in docs/results and the README.

    \b
    Example:
      cadmus readme results/quick
    """
    from cadmus.docgen.readme import publish

    for path in publish(results, root):
        echo(path)
