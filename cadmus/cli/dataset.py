"""``cadmus sample``, ``cadmus shard``, ``cadmus manifest`` and ``cadmus report``."""

from pathlib import Path

import click

from cadmus.cli.options import config_option


@click.command()
@click.argument("template")
@click.option("-n", "--programs", "count", default=10, show_default=True, type=click.IntRange(min=0))
@click.option("--seed", default=1, show_default=True, type=click.IntRange(min=0))
@click.option(
    "--split",
    default="train",
    show_default=True,
    help="train, validation, test, or held_out where the config has rules",
)
@click.option(
    "--config", type=click.Path(path_type=Path), help="A config file, for other ranges and lengths."
)
def sample(template: str, count: int, seed: int, split: str, config: Path | None) -> None:
    """Print true programs of TEMPLATE, one a line.

    \b
    Examples:
      cadmus sample less_greater -n 5 --seed 7
      cadmus sample complete_algorithm -n 3 | cadmus run -
    """
    from cadmus.config import Dataset, load_config
    from cadmus.dataset import sampler

    dataset = load_config(config).dataset if config else Dataset()
    drawn = sampler.sample(dataset, seed, template, split, 0, count)
    for program in drawn.programs.to_strings():
        click.echo(program)


@click.command()
@config_option
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--template", required=True)
@click.option("--split", required=True)
@click.option("--number", required=True, type=click.IntRange(min=0), help="number of the shard, from 0")
def shard(config: Path, directory: Path, template: str, split: str, number: int) -> None:
    """Sample one shard of the dataset in DIRECTORY.

    It holds none of the programs of the shards with lower numbers, which are there already.
    """
    from cadmus.config import load_config
    from cadmus.dataset.shards import write_shard

    write_shard(load_config(config), directory, template, split, number)


@click.command()
@config_option
@click.argument("directory", type=click.Path(path_type=Path))
def manifest(config: Path, directory: Path) -> None:
    """Check the shards of the dataset in DIRECTORY and write its manifest.json."""
    from cadmus.config import load_config
    from cadmus.dataset.manifest import write_manifest

    written = write_manifest(load_config(config), directory)
    for split, templates in written["splits"].items():
        total = sum(row["programs"] for row in templates.values())
        distinct = sum(row["distinct"] for row in templates.values())
        click.echo(f"{split}: {total:,} programs of {len(templates)} templates, {distinct:,} distinct")


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
def report(directory: Path) -> None:
    """Describe the dataset in DIRECTORY: report.md, figures in the folder report beside it, and a card.

    With the card, README.md, the directory can be uploaded to the Hugging Face hub as it is.

    \b
    Example:
      cadmus report results/quick/dataset
    """
    from cadmus.dataset.report import write_report

    for path in write_report(directory):
        click.echo(path)


COMMANDS = (sample, shard, manifest, report)
