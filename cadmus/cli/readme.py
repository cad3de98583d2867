"""``cadmus readme``."""

from pathlib import Path

import click


@click.command()
@click.argument("results", type=click.Path(path_type=Path))
@click.option("--root", default=".", type=click.Path(path_type=Path, exists=True, file_okay=False))
def readme(results: Path, root: Path) -> None:
    """Copy the results of the run in RESULTS to docs/results and show them in the README.

    \b
    Example:
      cadmus readme results/quick
    """
    from cadmus.readme import publish

    for path in publish(results, root):
        click.echo(path)


COMMANDS = (readme,)
