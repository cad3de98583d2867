"""``cadmus shard``, ``manifest``, ``train`` and ``card``: from a config to a model and its page."""

import sys
from pathlib import Path
from typing import Any

import click

from cadmus import pipeline
from cadmus.cli.options import DIRECTORY, MODEL, PATH, changes_option, config_option, echo, integer_option
from cadmus.config import load_config, parse_config
from cadmus.config.loading import merged
from cadmus.errors import InputError, Interrupted, RankLocalError
from cadmus.model import CARD
from cadmus.train.paths import RunPaths


@click.command()
@config_option
@changes_option
@click.argument("directory", type=DIRECTORY)
@click.option(
    "--split",
    metavar="SPLIT",
    help="Split: train, validation, test or ood; repeatable.",
    multiple=True,
    required=True,
)
@click.option("--template", metavar="TEMPLATE", help="Template of one shard.")
@integer_option("--number", low=0, help="Number of this shard, from 0.")
def shard(config: Path, changes: dict[str, Any], directory: Path, split: tuple[str, ...], **one: Any) -> None:
    """Sample shards of the dataset in DIRECTORY.

    All of some splits, or one. For one, the shards with lower numbers must exist; none of their programs is
    repeated.

    \b
    Examples:
      cadmus shard results/quick/dataset --split validation --split test
      cadmus shard results/quick/dataset --split train --template equality --number 0
    """
    from cadmus.dataset.shards import write_shard

    run = load_config(config, changes)
    if set(one.values()) == {None}:
        pipeline.sample(run, directory, split)
    elif None in one.values() or len(split) > 1:
        raise InputError("--template, --number: name one shard together, with one --split")
    else:
        write_shard(run, directory, split=split[0], **one)


@click.command()
@config_option
@changes_option
@click.argument("directory", type=DIRECTORY)
def manifest(config: Path, changes: dict[str, Any], directory: Path) -> None:
    """Check the shards in DIRECTORY and write its manifest.json.

    \b
    Example:
      cadmus manifest results/quick/dataset --config quick
    """
    for split, templates in pipeline.dataset(load_config(config, changes), directory)["splits"].items():
        total = sum(row["programs"] for row in templates.values())
        distinct = sum(row["distinct"] for row in templates.values())
        echo(f"{split}: {total:,} programs of {len(templates)} templates, {distinct:,} distinct")


@click.command()
@config_option
@changes_option
@click.option("--dataset", type=DIRECTORY, required=True, help="Directory of the dataset.")
@click.option(
    "--checkpoints", type=DIRECTORY, required=True, help="Checkpoints to resume from; removed at the end."
)
@click.option(
    "--output", "export", type=DIRECTORY, required=True, help="Directory to export to; replaces an export."
)
@click.option(
    "--metrics", type=PATH, required=True, help="JSON lines of the losses; NAME.partial.jsonl until the end."
)
@click.option("--snapshots", type=DIRECTORY, help="Directory of train.snapshots exports; none by default.")
@integer_option("--ranks", "count", low=0, help="Number of processes; overrides train.ranks.")
@click.option(
    "--requeue", is_flag=True, envvar="CADMUS_REQUEUE", help="Requeue the SLURM job when SIGTERM stops it."
)
def train(
    config: Path, changes: dict[str, Any], dataset: Path, count: int | None, requeue: bool, **files: Any
) -> None:
    """Train a model on a dataset and export it.

    Training runs one process per GPU or, without GPUs, per core; train.ranks sets another number. SIGTERM or
    Ctrl-C saves a checkpoint and exits with code 1. The same command then resumes from the newest checkpoint
    and gives the same model.

    \b
    Example:
      cadmus train --config quick --dataset results/quick/dataset \\
        --checkpoints results/quick/training/checkpoints --output results/quick/model \\
        --metrics results/quick/training/metrics.jsonl
    """
    paths = RunPaths(**files)
    run = load_config(config, changes)
    # It imports torch, which takes seconds.
    from cadmus.train import ranks

    if count:
        run = parse_config(merged(run.model_dump(), {"train": {"ranks": count}}), f"--ranks {count}")
    if not ranks.is_started():
        pipeline.check_training(run, dataset, paths)
        count = ranks.count_ranks(run.train, echo)
        if count > 1:
            ranks.check_devices(count)
            sys.exit(ranks.run_ranks([sys.executable, "-m", "cadmus", *sys.argv[1:]], count))

    # An error of all ranks is reported by the first one.
    first = ranks.is_first()
    try:
        pipeline.train(run, dataset, paths.export, paths, echo)
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


@click.command()
@click.argument("directory", type=MODEL)
@click.option("--completions", type=PATH, required=True, help="Results of `cadmus evaluate completions`.")
@click.option("--output", type=PATH, help="Card to write, a .md file; README.md in DIRECTORY by default.")
def card(directory: Path, completions: Path, output: Path | None) -> None:
    """Write the card of the model in DIRECTORY.

    The Hugging Face Hub shows it as the page of the model: data, training, accuracy and limits.

    \b
    Example:
      cadmus card results/quick/model --completions results/quick/experiments/completions.parquet
    """
    from cadmus.pages.model import model_card
    from cadmus.store import write_card

    output = output or directory / CARD
    if output.suffix != ".md":
        raise InputError(f"--output {output}: must end in .md")
    write_card(output, model_card(directory, completions))
