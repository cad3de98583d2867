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
    help="How many, over all runs.",
)
@seed_option(0, "the moments of the kills")
def kills(kills: int, seed: int) -> None:
    """Kill trainings at random moments and compare what they end in.

    A tiny model is trained on random programs, once without a kill. Then the same run is killed by SIGKILL
    at moments drawn uniformly from its duration, continued after each kill, and begun again when it is over
    before all kills have happened. Losses and weights of every run have to be those of the first bit for
    bit; if they are not, or if this is interrupted, the exit code is 1. A kill takes about a second.

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
        click.echo(f"{survival.different} of the last run are not those of the run without kills")
        sys.exit(1)
    click.echo("losses and weights of every run are bit for bit those of the run without kills")


COMMANDS = (kills,)
