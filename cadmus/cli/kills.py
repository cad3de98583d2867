"""``cadmus kills``."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from cadmus.cli.options import CONFIG, PATH, WholeNumber, seed_option
from cadmus.common import interrupts
from cadmus.common.files import check_writable, replacing
from cadmus.errors import InputError, Interrupted
from cadmus.tools import progress


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
@click.option(
    "--workflow",
    type=CONFIG,
    metavar="FILE",
    help="Kill the workflow of this config, in a temporary directory, instead of a training.",
)
@click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="PATH",
    help="With --workflow, a file to make; all by default. Repeatable.",
)
@click.option("--output", type=PATH, metavar="FILE", help="Also write the result to this JSON file.")
def kills(
    kills: int, seed: int, workflow: Path | None, targets: tuple[str, ...], output: Path | None
) -> None:
    """Kill trainings or the workflow and compare the results.

    A tiny model trains on random programs, once without a kill. Then the same run is killed with SIGKILL at
    random moments and resumed after each kill. If a run ends before all kills have happened, another one
    starts. The exit code is 1 if the losses or weights of a run differ in any bit from those of the first, or
    if the command is interrupted. A kill takes about a second.

    With --workflow, kills alternate between Snakemake with all its processes and one process of a job.
    Snakemake is unlocked and restarted after each. At the end, all files must equal those of an undisturbed
    run, except for times, and no other file may be left.

    \b
    Examples:
      cadmus kills --kills 50 --seed 1
      cadmus kills --kills 100 --workflow tests/tiny.yaml --output docs/results/kills.json
    """
    if targets and workflow is None:
        raise InputError("--target: only with --workflow; add --workflow FILE")
    if output is not None:
        check_writable(output)
    start, happened = time.perf_counter(), 0
    with (
        interrupts.raising(),
        TemporaryDirectory(prefix="cadmus-kills-") as directory,
        progress("kills", total=kills, unit="kill") as bar,
    ):

        def count() -> None:
            nonlocal happened
            happened += 1
            bar.update()

        try:
            if workflow is None:
                result, lines, different = _of_trainings(kills, seed, Path(directory), count)
            else:
                result, lines, different = _of_workflow(
                    workflow, targets, kills, seed, Path(directory), count
                )
        except KeyboardInterrupt:
            bar.close()
            raise Interrupted(f"interrupted after {happened} of {kills} kills") from None
    seconds = time.perf_counter() - start
    lines[0] = f"{happened} kills in {result['runs']} runs, {seconds:.0f} s: {lines[0]}"
    click.echo("\n".join(lines))
    if output is not None:
        from cadmus.common.provenance import commit

        record = {"kills": happened, "seed": seed, **result, "seconds": round(seconds), "commit": commit()}
        with replacing(output) as temporary:
            temporary.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    if different:
        raise click.exceptions.Exit(1)


_Result = tuple[dict[str, object], list[str], bool]
"""Values for the file, lines to print, True if there is a difference."""


def _of_trainings(kills: int, seed: int, directory: Path, done: Callable[[], None]) -> _Result:
    from cadmus.checks.kills import PHASES, survive

    survival = survive(kills, seed, directory, done)
    phases = {phase: survival.phases[phase] for phase in PHASES}
    end = (
        f"{survival.different} of the last run differ from those of the run without kills"
        if survival.different
        else "losses and weights of every run are bit-identical to those of the run without kills"
    )
    return (
        {"runs": survival.runs, "phases": phases, "different": survival.different},
        [", ".join(f"{number} while {phase}" for phase, number in phases.items()), end],
        bool(survival.different),
    )


def _of_workflow(
    config: Path, targets: tuple[str, ...], kills: int, seed: int, directory: Path, done: Callable[[], None]
) -> _Result:
    from cadmus.checks.workflow import survive
    from cadmus.distribution import DATA

    outcome = survive(config, DATA, kills, seed, directory, done, targets)
    end = (
        f"{len(outcome.different)} files of the last run differ from those of the run without kills, are "
        f"missing or left over: {', '.join(outcome.different)}"
        if outcome.different
        else f"the {outcome.files} files of every run are those of the run without kills, times aside"
    )
    return (
        {"config": config.name, "targets": list(targets), **outcome._asdict()},
        [f"{outcome.everything} of all processes, {outcome.jobs} of one process", end],
        bool(outcome.different),
    )
