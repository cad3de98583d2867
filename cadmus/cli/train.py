"""``cadmus train``."""

import os
import sys
from functools import partial
from pathlib import Path

import click

from cadmus.cli.options import DIRECTORY, PATH, WholeNumber, config_option, echo
from cadmus.config import load_config, parse_config
from cadmus.dataset.manifest import read_manifest
from cadmus.dataset.reader import stream_split
from cadmus.errors import InputError, Interrupted, RankLocalError
from cadmus.store import check_writable
from cadmus.train import ranks
from cadmus.train.paths import RunPaths


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
    "count",
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
    count: int,
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
    from cadmus.model.export import check_export

    paths = RunPaths(checkpoints, output, metrics, snapshots)
    run = load_config(config)
    if count:
        values = run.model_dump()
        run = parse_config({**values, "train": {**values["train"], "ranks": count}}, f"--ranks {count}")
    manifest = read_manifest(dataset)
    if manifest["config_digest"] != run.dataset_digest():
        raise InputError(
            f"{dataset}: sampled with another seed or section dataset than {config} has; sample it again"
        )
    check_export(output)
    check_writable(metrics)
    if snapshots is not None:
        check_writable(snapshots, directory=True)
    if "RANK" not in os.environ:
        nodes = ranks.slurm_nodes()
        count = ranks.count_ranks(run.train, nodes)
        if nodes or count > 1:
            ranks.check_devices(count // (nodes.size if nodes else 1))
            command = [sys.executable, "-m", "cadmus", *sys.argv[1:]]
            sys.exit(ranks.run_ranks(command, count, nodes))

    from cadmus.train import loop

    read = partial(stream_split, dataset, "train")
    # An error of all ranks is reported by the first one.
    first = os.environ.get("RANK", "0") == "0"
    try:
        loop.train(run, read, manifest["digest"], paths.partial(), echo)
        if first:
            # An exit code of 1 would make Snakemake delete the files.
            with ranks.deferred_signals():
                paths.publish()
    except InputError as error:
        if first or isinstance(error, RankLocalError):
            raise
        sys.exit(2)
    except (Interrupted, KeyboardInterrupt) as error:
        if not first:
            sys.exit(1)
        if isinstance(error, Interrupted) and requeue:
            echo(f"cadmus: {error}", err=True)
            refusal = ranks.requeue()
            outcome = f"not put back in the queue: {refusal}" if refusal else "put back in the queue"
            raise Interrupted(outcome) from None
        raise
