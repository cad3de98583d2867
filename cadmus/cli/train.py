"""``cadmus train``."""

import os
import sys
from pathlib import Path

import click

from cadmus.config import load_config
from cadmus.errors import InputError


@click.command()
@click.option("--config", "config_file", type=click.Path(path_type=Path), required=True, help="The run.")
@click.option(
    "--dataset", type=click.Path(path_type=Path), required=True, help="Directory of the sampled programs."
)
@click.option(
    "--checkpoints",
    type=click.Path(path_type=Path),
    required=True,
    help="Directory of this run's checkpoints; training goes on from the last one there.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="Directory that the model is exported to.",
)
@click.option(
    "--metrics", type=click.Path(path_type=Path), required=True, help="File of the losses, one line a step."
)
def train(config_file: Path, dataset: Path, checkpoints: Path, output: Path, metrics: Path) -> None:
    """Train a model on a dataset and export it.

    Stopped by SIGTERM or Ctrl-C it saves a checkpoint and ends with exit code 1; run again, it goes on
    from there and gives the same model.  With train.ranks above 1 it starts that many processes.
    """
    # One of several ranks leaves it to the first to tell what is wrong.
    quiet = int(os.environ.get("RANK", "0")) > 0
    try:
        _train(config_file, dataset, checkpoints, output, metrics)
    except InputError:
        if quiet:
            sys.exit(2)
        raise


def _train(config_file: Path, dataset: Path, checkpoints: Path, output: Path, metrics: Path) -> None:
    from cadmus.dataset.manifest import read_manifest

    run = load_config(config_file)
    data_digest = read_manifest(dataset)["digest"]
    if run.train.ranks > 1 and "RANK" not in os.environ:
        torchrun = ["torch.distributed.run", "--standalone", "--nproc-per-node", str(run.train.ranks)]
        os.execv(sys.executable, [sys.executable, "-m", *torchrun, "-m", "cadmus.cli.main", *sys.argv[1:]])

    from cadmus.dataset.reader import read_split
    from cadmus.train import loop

    programs = read_split(dataset, "train").programs
    try:
        loop.train(run, programs, data_digest, checkpoints, output, metrics, click.echo)
    except loop.Interrupted as interruption:
        click.echo(f"cadmus: {interruption}", err=True)
        sys.exit(1)


COMMANDS = (train,)
