"""``cadmus kills``."""

import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from cadmus.cli.options import WholeNumber, seed_option
from cadmus.common.progress import progress


@click.command()
@click.option(
    "--kills",
    default=50,
    show_default=True,
    type=WholeNumber(min=1),
    metavar="N",
    help="Number of kills, over all runs.",
)
@seed_option(0, "the moments of the kills")
def kills(kills: int, seed: int) -> None:
    """Kill training runs at random moments and compare the results.

    A tiny model trains on random programs, once without a kill. Then the same run is killed with SIGKILL at
    moments drawn uniformly from its duration and resumed after each kill. A run that ends before all kills
    have happened is followed by another. If losses and weights of a run are not bit-identical to those of the
    first, or if the command is interrupted, the exit code is 1. A kill takes about a second.

    \b
    Example:
      cadmus kills --kills 50 --seed 1
    """
    from cadmus.checks.kills import PHASES, survive

    start, happened = time.perf_counter(), 0
    with (
        TemporaryDirectory(prefix="cadmus-kills-") as directory,
        progress("kills", total=kills, unit="kill") as bar,
    ):

        def count() -> None:
            nonlocal happened
            happened += 1
            bar.update()

        try:
            survival = survive(kills, seed, Path(directory), count)
        except KeyboardInterrupt:
            bar.close()
            click.echo(f"interrupted after {happened} of {kills} kills", err=True)
            sys.exit(1)
    seconds = time.perf_counter() - start
    where = ", ".join(f"{survival.phases[phase]} while {phase}" for phase in PHASES)
    click.echo(f"{happened} kills in {survival.runs} runs, {seconds:.0f} s: {where}")
    if survival.different:
        click.echo(f"{survival.different} of the last run differ from those of the run without kills")
        sys.exit(1)
    click.echo("losses and weights of every run are bit-identical to those of the run without kills")


COMMANDS = (kills,)
