"""``cadmus shard``, ``cadmus manifest`` and ``cadmus report``."""

from pathlib import Path

import click

from cadmus import pipeline
from cadmus.cli.options import DIRECTORY, config_option, echo
from cadmus.config import load_config


@click.command()
@config_option
@click.argument("directory", type=DIRECTORY)
@click.option("--template", required=True, metavar="TEMPLATE", help="Template of its programs.")
@click.option(
    "--split", required=True, metavar="SPLIT", help="Split of its programs: train, validation, test or ood."
)
@click.option(
    "--number", required=True, type=click.IntRange(0), metavar="N", help="Number of the shard, from 0."
)
def shard(config: Path, directory: Path, template: str, split: str, number: int) -> None:
    """Sample one shard of the dataset in DIRECTORY.

    The shards with lower numbers must exist; none of their programs is repeated.

    \b
    Example:
      cadmus shard results/quick/dataset --template equality --split train --number 0
    """
    from cadmus.dataset.shards import write_shard

    write_shard(load_config(config), directory, template, split, number)


@click.command()
@config_option
@click.argument("directory", type=DIRECTORY)
def manifest(config: Path, directory: Path) -> None:
    """Check the shards in DIRECTORY and write its manifest.json.

    \b
    Example:
      cadmus manifest results/quick/dataset --config quick
    """
    for split, templates in pipeline.dataset(load_config(config), directory)["splits"].items():
        total = sum(row["programs"] for row in templates.values())
        distinct = sum(row["distinct"] for row in templates.values())
        echo(f"{split}: {total:,} programs of {len(templates)} templates, {distinct:,} distinct")


@click.command()
@click.argument("directory", type=DIRECTORY)
def report(directory: Path) -> None:
    """Write report, figures and card of the dataset in DIRECTORY.

    The report is report.md, with its figures in the directory report. The card is README.md. `cadmus push`
    uploads the directory.

    \b
    Example:
      cadmus report results/quick/dataset
    """
    from cadmus.pages.dataset import write_report

    for path in write_report(directory):
        echo(path)
