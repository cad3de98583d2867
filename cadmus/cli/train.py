"""``cadmus train``."""

import os
import signal
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cadmus.cli.options import DIRECTORY, PATH, WholeNumber, config_option, echo
from cadmus.errors import InputError, Interrupted, RankLocalError
from cadmus.store import check_writable

if TYPE_CHECKING:
    from cadmus.train.paths import RunPaths

LAUNCHED = "CADMUS_LAUNCHED"
"""Set for ranks that this command started; torchrun's ranks have no such parent."""


@click.command()
@config_option
@click.option("--dataset", type=DIRECTORY, required=True, metavar="DIR", help="Directory of the dataset.")
@click.option(
    "--checkpoints",
    type=DIRECTORY,
    required=True,
    metavar="DIR",
    help="Directory of this run's checkpoints. Training resumes from the newest one, and removes all once "
    "the model is exported.",
)
@click.option(
    "--output", type=DIRECTORY, required=True, metavar="DIR", help="Directory to export the model to."
)
@click.option(
    "--metrics",
    type=PATH,
    required=True,
    metavar="FILE",
    help="JSON Lines file of the losses, one line per step; NAME.partial.jsonl until the model is exported.",
)
@click.option(
    "--snapshots",
    type=DIRECTORY,
    metavar="DIR",
    help="Directory of train.snapshots exports during training; none by default.",
)
@click.option(
    "--ranks",
    type=WholeNumber(min=0),
    default=0,
    metavar="N",
    help="Processes over all nodes; overrides train.ranks unless 0.",
)
@click.option(
    "--requeue",
    is_flag=True,
    envvar="CADMUS_REQUEUE",
    help="Put the SLURM job back in the queue when SIGTERM stops it.",
)
def train(
    config: Path,
    dataset: Path,
    checkpoints: Path,
    output: Path,
    metrics: Path,
    snapshots: Path | None,
    ranks: int,
    requeue: bool,
) -> None:
    """Train a model on a dataset and export it.

    Training runs one process per GPU or, without GPUs, per core; train.ranks sets another number. On several
    nodes, start the command with srun, once per node. SIGTERM or Ctrl-C saves a checkpoint and exits with
    code 1. The same command then resumes from the checkpoint and gives the same model.

    \b
    Example:
      cadmus train --config quick --dataset results/quick/dataset \\
        --checkpoints results/quick/training/checkpoints --output results/quick/model \\
        --metrics results/quick/training/metrics.jsonl
    """
    from cadmus.config import load_config, parse_config
    from cadmus.dataset.manifest import read_manifest
    from cadmus.model.export import check_export
    from cadmus.train import launch, slurm
    from cadmus.train.paths import RunPaths

    paths = RunPaths(checkpoints, output, metrics, snapshots)
    run = load_config(config)
    if ranks:
        values = run.model_dump()
        run = parse_config({**values, "train": {**values["train"], "ranks": ranks}}, f"--ranks {ranks}")
    manifest = read_manifest(dataset)
    if manifest["config_digest"] != run.dataset_digest():
        raise InputError(
            f"{dataset}: sampled with another seed or section dataset than {config} has; sample it again"
        )
    check_export(output)
    check_writable(metrics)
    if snapshots is not None:
        check_writable(snapshots, directory=True)
    nodes = slurm.nodes()
    if "RANK" not in os.environ:
        count = launch.count_ranks(run.train, nodes)
        if nodes or count > 1:
            from cadmus.train import devices

            devices.check(count // (nodes.size if nodes else 1))
            os.environ[LAUNCHED] = "1"
            code = launch.run_ranks(launch.python_command(), count, nodes)
            if code == 0 and (nodes is None or nodes.rank == 0):
                _publish(paths)
            sys.exit(code)

    from cadmus.dataset.reader import stream_split
    from cadmus.train import loop

    # An error of one rank ends all; the first rank reports it.
    first = os.environ.get("RANK", "0") == "0"
    try:
        loop.train(
            run,
            partial(stream_split, dataset, "train"),
            manifest["digest"],
            paths.partial(),
            echo,
        )
        # Of several ranks, another one may still fail; their launcher publishes.
        if first and LAUNCHED not in os.environ:
            _publish(paths)
    except InputError as error:
        if first or isinstance(error, RankLocalError):
            raise
        sys.exit(2)
    except Interrupted as interruption:
        if first:
            echo(f"cadmus: {interruption}", err=True)
            if requeue:
                refusal = slurm.requeue()
                outcome = f"not put back in the queue: {refusal}" if refusal else "put back in the queue"
                echo(f"cadmus: {outcome}", err=True)
        sys.exit(1)


def _publish(paths: "RunPaths") -> None:
    """Publish the files of a training, ignoring signals: an exit code of 1 would make Snakemake delete
    them."""
    handlers = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        paths.publish()
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
