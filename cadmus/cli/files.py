"""``cadmus shard``, ``manifest`` and ``report`` of a dataset, ``card`` of a model, and ``push`` of either."""

from pathlib import Path

import click

from cadmus import pipeline
from cadmus.cli.options import DIRECTORY, MODEL, PATH, config_option, echo, echo_table
from cadmus.config import load_config
from cadmus.errors import InputError
from cadmus.model import CARD


@click.command()
@config_option
@click.argument("directory", type=DIRECTORY)
@click.option("--template", required=True, metavar="TEMPLATE", help="Template of the programs.")
@click.option("--split", required=True, metavar="SPLIT", help="Split: train, validation, test or ood.")
@click.option("--number", required=True, type=click.IntRange(0), metavar="N", help="Shard number, from 0.")
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

    They are report.md, the directory report, and README.md. `cadmus push` uploads the directory.

    \b
    Example:
      cadmus report results/quick/dataset
    """
    from cadmus.pages.dataset import write_report

    for path in write_report(directory):
        echo(path)


@click.command()
@click.argument("model", type=MODEL)
@click.option("--completions", type=PATH, required=True, help="Results of `cadmus evaluate completions`.")
@click.option("--metrics", type=PATH, help="Metrics of `cadmus train`, which have the last loss.")
@click.option("--output", type=PATH, help="Card to write, a .md file; README.md in MODEL by default.")
def card(model: Path, completions: Path, metrics: Path | None, output: Path | None) -> None:
    """Write the model card of the export in MODEL.

    The Hugging Face Hub shows it as the page of the model: data, training, compute, accuracy and limits.

    \b
    Example:
      cadmus card results/quick/model --completions results/quick/experiments/completions.parquet \\
        --metrics results/quick/training/metrics.jsonl
    """
    from cadmus.pages.model import model_card
    from cadmus.store import write_text

    output = output or model / CARD
    if output.suffix != ".md":
        raise InputError(f"--output {output}: must end in .md")
    write_text(output, model_card(model, completions, metrics))


@click.command()
@click.argument("directory", type=MODEL)
@click.option("--to", "name", required=True, metavar="NAME", help="Repository, USER/NAME on the Hub.")
@click.option("--snapshots", type=DIRECTORY, help="Snapshots of the model; each becomes a revision.")
@click.option("--private", is_flag=True, help="Create the repository as a private one, if there is none.")
@click.option("--yes", is_flag=True, help="Upload the files; by default they are only listed.")
def push(directory: Path, name: str, snapshots: Path | None, private: bool, yes: bool) -> None:
    """Upload a model or dataset to the Hugging Face Hub.

    DIRECTORY is a model export or a finished dataset. Without --yes, the command only lists the files; that
    needs neither a token nor the network. With --yes it uploads them, with the token of `hf auth login` or
    HF_TOKEN. Hidden files are left out.

    \b
    Examples:
      cadmus push results/quick/model --to USER/cadmus-quick --snapshots results/quick/training/snapshots
      cadmus push results/quick/dataset --to USER/cadmus-quick --yes
    """
    from cadmus.pages import hub

    planned = hub.plan(directory, name, snapshots)
    if yes:
        hub.push(planned, private, echo)
        return
    files = [(path, name, of[path].stat().st_size) for name, of in planned.revisions.items() for path in of]
    rows = ((path, revision, f"{size:,}") for path, revision, size in files)
    echo_table([("file", "revision", "bytes"), *rows])
    total = sum(size for *_, size in files) / 1e6
    echo(f"\n{len(files)} files, {total:,.1f} MB, would go to the {planned.kind} {planned.url}")
    echo("Nothing was uploaded; --yes uploads.")
