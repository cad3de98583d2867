"""``cadmus shard`` and ``manifest`` of a dataset, and ``card`` of a dataset or a model."""

from pathlib import Path
from typing import Any

import click

from cadmus import pipeline
from cadmus.cli.options import DIRECTORY, MODEL, PATH, changes_option, config_option, echo
from cadmus.config import load_config
from cadmus.errors import InputError
from cadmus.model import CARD


@click.command()
@config_option
@changes_option
@click.argument("directory", type=DIRECTORY)
@click.option("--template", required=True, metavar="TEMPLATE", help="Template of the programs.")
@click.option("--split", required=True, metavar="SPLIT", help="Split: train, validation, test or ood.")
@click.option("--number", required=True, type=click.IntRange(0), metavar="N", help="Shard number, from 0.")
def shard(
    config: Path, changes: dict[str, Any], directory: Path, template: str, split: str, number: int
) -> None:
    """Sample one shard of the dataset in DIRECTORY.

    The shards with lower numbers must exist; none of their programs is repeated.

    \b
    Example:
      cadmus shard results/quick/dataset --template equality --split train --number 0
    """
    from cadmus.dataset.shards import write_shard

    write_shard(load_config(config, changes), directory, template, split, number)


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
@click.argument("directory", type=MODEL)
@click.option(
    "--completions", type=PATH, help="Results of `cadmus evaluate completions`; needed for a model."
)
@click.option("--metrics", type=PATH, help="Metrics of `cadmus train`, which have the last loss.")
@click.option("--output", type=PATH, help="Card to write, a .md file; README.md in DIRECTORY by default.")
def card(directory: Path, completions: Path | None, metrics: Path | None, output: Path | None) -> None:
    """Write the card of the model or dataset in DIRECTORY.

    The Hugging Face Hub shows it as the page of the model or dataset: data, training, accuracy and limits.

    \b
    Examples:
      cadmus card results/quick/dataset
      cadmus card results/quick/model --completions results/quick/experiments/completions.parquet \\
        --metrics results/quick/training/metrics.jsonl
    """
    from cadmus.dataset.manifest import NAME as MANIFEST
    from cadmus.pages.dataset import dataset_card
    from cadmus.pages.model import model_card
    from cadmus.store import write_text

    output = output or directory / CARD
    if output.suffix != ".md":
        raise InputError(f"--output {output}: must end in .md")
    if (directory / MANIFEST).exists():
        write_text(output, dataset_card(directory))
    elif completions is None:
        raise InputError(f"{directory}: no dataset; for the card of a model, add --completions")
    else:
        write_text(output, model_card(directory, completions, metrics))
