"""``cadmus fuzz``."""

import sys
import time

import click

from cadmus.cli.options import WholeNumber, seed_option
from cadmus.common import interrupts
from cadmus.errors import Interrupted
from cadmus.tools import cores, progress
from cadmus.vm.reference import Result, show

REPORT_SECONDS = 60.0
"""Time between two progress lines if standard error is not a terminal."""


@click.command()
@click.option(
    "--programs",
    default=1_000_000,
    show_default=True,
    type=WholeNumber(min=1),
    metavar="N",
    help="Number of programs.",
)
@seed_option(0, "which programs")
@click.option(
    "--jobs",
    show_default="number of cores",
    type=WholeNumber(min=1),
    metavar="N",
    help="Number of processes.",
)
@click.option(
    "--first-chunk",
    default=0,
    show_default=True,
    type=WholeNumber(min=0),
    metavar="K",
    help="Start at this chunk of the seed, to resume an interrupted run.",
)
def fuzz(programs: int, seed: int, jobs: int | None, first_chunk: int) -> None:
    """Compare the two VMs on random programs.

    The compiled VM has to give the same results as the reference VM.

    The programs are uniformly random ones, number programs, programs with definitions and calls, programs
    that exhaust the call budget, and mutated candidates of the templates. They depend on the seed, but not on
    the number of processes. At the first disagreement the command prints the program, the shortest form that
    still disagrees and both results, and exits with code 1. If it is interrupted, it prints how to resume and
    exits with code 1. Without a terminal it prints its progress every minute.

    \b
    Examples:
      cadmus fuzz --programs 10_000_000 --seed 1
      cadmus fuzz --programs 1_000_000_000 --jobs 2
    """
    from cadmus.checks import fuzz as fuzzing

    jobs = min(jobs or cores(), -(-programs // fuzzing.CHUNK))
    start, agreed, reports = time.perf_counter(), 0, 0
    disagreement = None

    def so_far() -> str:
        chunks = agreed // fuzzing.CHUNK
        rest = f"--first-chunk {first_chunk + chunks} --programs {programs - chunks * fuzzing.CHUNK}"
        return f"{agreed:,} of {programs:,} programs; {rest} does the rest"

    with progress("fuzz", total=programs, unit="program") as bar:

        def count(more: int) -> None:
            nonlocal agreed, reports
            agreed += more
            bar.update(more)
            if bar.disable and time.perf_counter() - start > REPORT_SECONDS * (reports + 1):
                reports += 1
                click.echo(so_far(), err=True)

        with interrupts.on_interrupt(lambda: f"cadmus: interrupted after {so_far()}"):
            try:
                disagreement = fuzzing.fuzz(programs, seed, jobs, count, first_chunk)
            except KeyboardInterrupt:
                raise Interrupted(f"interrupted after {so_far()}") from None
    if disagreement is not None:
        click.echo(f"the VMs disagree on a program of chunk {disagreement.chunk} of seed {seed}:")
        click.echo(f"  program    {disagreement.program}")
        click.echo(f"  shortest   {disagreement.shortest}")
        click.echo(f"  reference  {_shown(disagreement.reference)}")
        click.echo(f"  compiled   {_shown(disagreement.compiled)}")
        sys.exit(1)
    seconds = time.perf_counter() - start
    click.echo(
        f"the VMs agree on {agreed:,} programs of seed {seed}: {seconds:.1f} s, "
        f"{agreed / seconds:,.0f} programs/s with {jobs} process{'es' if jobs > 1 else ''}"
    )


def _shown(result: Result) -> str:
    return f"{' '.join(map(show, result.outputs)) or 'nothing'}, {'true' if result.true else 'false'}"
