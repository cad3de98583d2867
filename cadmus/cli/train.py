"""``cadmus train``."""

import os
import sys
from pathlib import Path

import click

from cadmus.cli.options import DIRECTORY, PATH, WholeNumber, config_option
from cadmus.common.files import check_writable
from cadmus.errors import InputError, RankLocalError


@click.command()
@config_option
@click.option(
    "--dataset", type=DIRECTORY, required=True, metavar="DIR", help="Directory of the sampled programs."
)
@click.option(
    "--checkpoints",
    type=DIRECTORY,
    required=True,
    metavar="DIR",
    help="Directory of this run's checkpoints; training goes on from the last one there.",
)
@click.option(
    "--output",
    type=DIRECTORY,
    required=True,
    metavar="DIR",
    help="Directory that the model is exported to.",
)
@click.option(
    "--metrics", type=PATH, required=True, metavar="FILE", help="File of the losses, one line a step."
)
@click.option(
    "--snapshots",
    type=DIRECTORY,
    metavar="DIR",
    help="Directory for exports on the way, as many as train.snapshots says; none without.",
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
    help="In a SLURM job that is stopped by SIGTERM, put the job back in the queue.",
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

    It starts one process per GPU or, without GPUs, per core (train.ranks); started by srun once on each of
    several nodes, those of its node. SIGTERM or Ctrl-C saves a checkpoint and exits with code 1; the same
    command resumes from there and gives the same model.

    \b
    Example:
      cadmus train --config config/quick.yaml --dataset results/quick/dataset \\
        --checkpoints results/quick/training/checkpoints --output results/quick/model \\
        --metrics results/quick/training/metrics.jsonl
    """
    from cadmus.config import load_config, parse_config
    from cadmus.dataset.manifest import read_manifest
    from cadmus.model.export import check_export
    from cadmus.train import launch, slurm

    run = load_config(config)
    if ranks:
        values = run.model_dump()
        run = parse_config({**values, "train": {**values["train"], "ranks": ranks}}, f"--ranks {ranks}")
    manifest = read_manifest(dataset)
    if manifest["config_digest"] != run.dataset_digest():
        raise InputError(
            f"{dataset}: the dataset was sampled with another seed or section dataset than {config} has; "
            "sample it again"
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
            sys.exit(launch.run_ranks(launch.python_command(), count, nodes))

    from cadmus.dataset.reader import stream_split
    from cadmus.train import loop

    # What ends one rank ends all; the first tells what it is.
    first = os.environ.get("RANK", "0") == "0"
    try:
        loop.train(
            run,
            lambda: stream_split(dataset, "train"),
            manifest["digest"],
            checkpoints,
            output,
            metrics,
            click.echo,
            snapshots,
        )
    except InputError as error:
        if first or isinstance(error, RankLocalError):
            raise
        sys.exit(2)
    except loop.Interrupted as interruption:
        if first:
            click.echo(f"cadmus: {interruption}", err=True)
            if requeue:
                refusal = slurm.requeue()
                outcome = f"not put back in the queue: {refusal}" if refusal else "put back in the queue"
                click.echo(f"cadmus: {outcome}", err=True)
        sys.exit(1)


COMMANDS = (train,)
