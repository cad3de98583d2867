"""``cadmus sample``, ``cadmus states``, ``cadmus shard``, ``cadmus manifest`` and ``cadmus report``."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cadmus.cli.options import (
    CONFIG,
    DIRECTORY,
    PATH,
    WholeNumber,
    check_results_path,
    config_option,
    echo,
    seed_option,
)

if TYPE_CHECKING:
    from cadmus.programs import Samples

NUMBER = WholeNumber(min=0)
# Those of the largest shard; more programs are a dataset.
MOST = 8_000_000

_split_option = click.option(
    "--split",
    default="train",
    show_default=True,
    metavar="SPLIT",
    help="train, validation, test, or ood if the config has rules.",
)
_ranges_option = click.option(
    "--config", type=CONFIG, metavar="FILE", help="Config with other ranges and lengths: a file or a name."
)


def _number_option(default: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(
        "-n",
        "--programs",
        "n",
        default=default,
        show_default=True,
        type=WholeNumber(0, MOST),
        metavar="N",
        help="Number of programs.",
    )


def _sample(template: str, n: int, seed: int, split: str, config: Path | None) -> "Samples":
    from cadmus.config import Dataset, load_config
    from cadmus.dataset import sampler

    dataset = load_config(config).dataset if config else Dataset()
    return sampler.sample(dataset, seed, template, split, 0, n)


@click.command()
@click.argument("template")
@_number_option(10)
@seed_option(1, "which programs")
@_split_option
@_ranges_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per program.")
def sample(template: str, n: int, seed: int, split: str, config: Path | None, as_json: bool) -> None:
    """Print true programs of TEMPLATE, one per line.

    A JSON object has the keys template, program, prompt, and x and y, the compared numbers (null if the
    template compares none).

    \b
    Examples:
      cadmus sample less_greater -n 5 --seed 7
      cadmus sample complete_algorithm -n 3 | cadmus run -
      cadmus sample equality --json | jq -r .prompt | cadmus complete -
    """
    samples = _sample(template, n, seed, split, config)
    programs = samples.programs.to_strings()
    if not as_json:
        click.echo("".join(f"{program}\n" for program in programs), nl=False)
        return
    values = (
        [None] * len(samples) if column is None else column.tolist() for column in (samples.x, samples.y)
    )
    for program, length, x, y in zip(programs, samples.prompt_length.tolist(), *values, strict=True):
        row = {"template": template, "program": program, "prompt": program[:length], "x": x, "y": y}
        click.echo(json.dumps(row))


@click.command()
@click.argument("template")
@click.option("--output", type=PATH, required=True, metavar="FILE", help="Parquet file to write.")
@_number_option(10_000)
@seed_option(1, "which programs")
@_split_option
@_ranges_option
def states(template: str, output: Path, n: int, seed: int, split: str, config: Path | None) -> None:
    """Write programs of TEMPLATE with the stack after every token.

    The programs are those of `cadmus sample`. In the Parquet file, a row has the columns template, program,
    prompt_length, tokens (token ids) and stacks: for every token the values on the stack, the top last,
    written as `cadmus run` prints them. They are labels for probes and sparse autoencoders.

    \b
    Example:
      cadmus states less_greater --split test -n 2000 --output states.parquet
    """
    from cadmus.dataset.states import write_states

    check_results_path(output)
    samples = _sample(template, n, seed, split, config)
    write_states(output, template, samples, {"seed": seed, "split": split})


@click.command()
@config_option
@click.argument("directory", type=DIRECTORY)
@click.option(
    "--template",
    required=True,
    metavar="TEMPLATE",
    help="Template of its programs.",
)
@click.option(
    "--split",
    required=True,
    metavar="SPLIT",
    help="Split of its programs: train, validation, test or ood.",
)
@click.option("--number", required=True, type=NUMBER, metavar="N", help="Number of the shard, from 0.")
def shard(config: Path, directory: Path, template: str, split: str, number: int) -> None:
    """Sample one shard of the dataset in DIRECTORY.

    The shards with lower numbers must exist; none of their programs is repeated.

    \b
    Example:
      cadmus shard results/quick/dataset --template equality --split train --number 0
    """
    from cadmus.config import load_config
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
    from cadmus.config import load_config
    from cadmus.dataset.manifest import write_manifest

    written = write_manifest(load_config(config), directory)
    for split, templates in written["splits"].items():
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
