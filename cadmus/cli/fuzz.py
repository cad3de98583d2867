"""``cadmus fuzz``."""

import sys
import time

import click

from cadmus.cli.options import WholeNumber, seed_option
from cadmus.common.cores import cores
from cadmus.common.progress import progress
from cadmus.vm.reference import Result, show

MINUTE = 60.0
"""Seconds between two lines that say how far it came, where there is no terminal."""


@click.command()
@click.option(
    "--programs",
    default=1_000_000,
    show_default=True,
    type=WholeNumber(min=1),
    metavar="N",
    help="How many programs.",
)
@seed_option(0, "which programs")
@click.option(
    "--jobs",
    default=None,
    type=WholeNumber(min=1),
    metavar="N",
    help="Processes; one for each core if left out.",
)
@click.option(
    "--first-chunk",
    default=0,
    show_default=True,
    type=WholeNumber(min=0),
    metavar="K",
    help="Begin with this chunk of the seed, to go on with a run that was interrupted.",
)
def fuzz(programs: int, seed: int, jobs: int | None, first_chunk: int) -> None:
    """Run random programs on both machines and compare the outcomes.

    The programs are uniform, number programs, programs with definitions and calls, programs that spend the
    budget of calls, and mutations of what the templates give. The same seed gives the same programs whatever
    the number of processes. At the first disagreement this stops with the program, what is left of it when
    all that can be spared is deleted, what each machine makes of that, and exit code 1. Interrupted, it says
    how far it came, and the exit code is 1 as well; where there is no terminal, it says so every minute.

    \b
    Examples:
      cadmus fuzz --programs 10_000_000 --seed 1
      cadmus fuzz --programs 1_000_000_000 --jobs 2
    """
    from cadmus.checks import fuzz as fuzzing

    if jobs is None:
        jobs = cores()
    jobs = min(jobs, -(-programs // fuzzing.CHUNK))
    start, agreed, said = time.perf_counter(), 0, 0
    disagreement = None
    with progress("fuzz", total=programs, unit="program") as bar:

        def count(more: int) -> None:
            nonlocal agreed, said
            agreed += more
            bar.update(more)
            if bar.disable and time.perf_counter() - start > MINUTE * (said + 1):
                said += 1
                click.echo(_so_far(agreed, programs, first_chunk), err=True)

        try:
            disagreement = fuzzing.fuzz(programs, seed, jobs, count, first_chunk)
        except KeyboardInterrupt:
            click.echo(f"interrupted after {_so_far(agreed, programs, first_chunk)}", err=True)
    if disagreement is not None:
        click.echo(f"the machines disagree on a program of chunk {disagreement.chunk} of seed {seed}:")
        click.echo(f"  program    {disagreement.program}")
        click.echo(f"  shortest   {disagreement.shortest}")
        click.echo(f"  reference  {_shown(disagreement.reference)}")
        click.echo(f"  compiled   {_shown(disagreement.compiled)}")
        sys.exit(1)
    seconds = time.perf_counter() - start
    click.echo(
        f"the machines agree on {agreed:,} programs of seed {seed}: {seconds:.1f} s, "
        f"{agreed / seconds:,.0f} programs/s with {jobs} process{'es' if jobs > 1 else ''}"
    )
    if agreed < programs:
        sys.exit(1)


def _so_far(agreed: int, programs: int, first_chunk: int) -> str:
    from cadmus.checks.fuzz import CHUNK

    done = agreed // CHUNK
    rest = f"--first-chunk {first_chunk + done} --programs {programs - done * CHUNK}"
    return f"{agreed:,} of {programs:,} programs; {rest} does the rest"


def _shown(result: Result) -> str:
    return f"{' '.join(map(show, result.outputs)) or 'nothing'}, {'true' if result.true else 'false'}"


COMMANDS = (fuzz,)
