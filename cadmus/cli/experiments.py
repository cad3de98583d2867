"""``cadmus evaluate``, ``grid``, ``probe`` and ``figure``: each makes one file of results from others."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from cadmus.cli.options import config_option
from cadmus.config import Config, digest, load_config
from cadmus.errors import InputError
from cadmus.figures import NAMES, produce
from cadmus.files import check_writable

_PATH = click.Path(path_type=Path)


def _experiment(command: Callable[..., None]) -> Callable[..., None]:
    """The options that all experiments on a model have."""
    for option in (
        click.option("--device", help="torch device; a GPU when there is one.", metavar="DEVICE"),
        click.option("--output", type=_PATH, required=True, metavar="FILE", help="Parquet file to write."),
        click.option(
            "--model", "directory", type=_PATH, required=True, metavar="DIR", help="Exported model."
        ),
        config_option,
    ):
        command = option(command)
    return command


@click.command()
@_experiment
@click.option("--dataset", type=_PATH, required=True, metavar="DIR", help="Dataset with the held-out split.")
def evaluate(config: Path, directory: Path, output: Path, device: str | None, dataset: Path) -> None:
    """Accuracy on each sub-problem, graded by execution (Table 3)."""
    run = _begin(config, output)
    from cadmus.dataset.manifest import read_manifest
    from cadmus.dataset.reader import read_split

    training = read_manifest(dataset)["splits"]["train"]
    table = read_split(dataset, run.evaluate.split)
    if table.programs.lengths.max() > run.dataset.max_length:
        raise InputError(
            f"{dataset}: has a program of {table.programs.lengths.max()} instructions; the config allows "
            f"dataset.max_length {run.dataset.max_length}"
        )
    model = _load(run, directory, device)

    import polars as pl

    from cadmus.evaluate.completion import accuracy
    from cadmus.evaluate.numbers import SOLVE

    numbers = accuracy(model, table, run.dataset.max_length, run.evaluate.programs)
    trained = {name: counts["programs"] for name, counts in training.items()}
    trained[SOLVE] = trained.get("equality", 0)
    programs = pl.col("template").replace_strict(trained, return_dtype=pl.Int64)
    _write(numbers.with_columns(programs.alias("training_programs")), output, run, directory)


@click.command()
@_experiment
def grid(config: Path, directory: Path, output: Path, device: str | None) -> None:
    """Accuracy at the comparator for every pair of values."""
    run = _begin(config, output)
    model = _load(run, directory, device)

    from cadmus.evaluate.grid import comparison_grid
    from cadmus.evaluate.intervals import as_text
    from cadmus.evaluate.regions import summary

    numbers = comparison_grid(
        model, run.evaluate.grid, run.dataset.values, run.dataset.held_out_share, run.seed
    )
    if not numbers["programs"].sum():
        raise InputError(
            f"evaluate.grid: no held-out comparison has values from {run.evaluate.grid.low} to "
            f"{run.evaluate.grid.high}; choose a range that meets dataset.values"
        )
    _write(numbers, output, run, directory)
    for row in summary(numbers).iter_rows(named=True):
        accuracy = as_text(row["accuracy"], row["low"], row["high"])
        click.echo(f"{row['region'].replace('_', ' ')}: {accuracy} of {row['programs']:,} programs")


@click.command()
@_experiment
@click.option(
    "--jobs", type=click.IntRange(1), metavar="N", help="Regressions fitted at a time; by default the cores."
)
def probe(config: Path, directory: Path, output: Path, device: str | None, jobs: int | None) -> None:
    """Logistic regressions for the two compared values, on every layer and token."""
    run = _begin(config, output)
    model = _load(run, directory, device)

    from cadmus.cores import cores
    from cadmus.probe.regression import probe

    jobs = jobs or cores()
    numbers = probe(model, run.evaluate.probe, run.dataset.values, run.dataset.held_out_share, run.seed, jobs)
    _write(numbers, output, run, directory)


@click.command(epilog=f"Figures and tables: {', '.join(NAMES)}.")
@click.argument("name")
@click.option(
    "--numbers", type=_PATH, multiple=True, metavar="FILE", help="Numbers file; again for a second one."
)
@click.option(
    "--output",
    type=_PATH,
    required=True,
    metavar="DIR_OR_FILE",
    help="Directory, or the path of one of the files; the other formats are put beside it.",
)
def figure(name: str, numbers: tuple[Path, ...], output: Path) -> None:
    """Draw the figure (.pdf, .png, .csv) or the table (.csv, .md, .tex) NAME from its numbers alone."""
    for path in produce(name, list(numbers), output):
        click.echo(path)


def _begin(config: Path, output: Path) -> Config:
    """The config, once it is clear that the results will find their place."""
    if output.suffix != ".parquet":
        raise InputError(f"--output {output}: a file of numbers is called something.parquet")
    check_writable(output)
    return load_config(config)


def _load(config: Config, directory: Path, device: str | None) -> Any:
    import torch

    from cadmus.model.export import read_metadata
    from cadmus.model.inference import Cadmus

    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"--device {device}: not to be had here ({reason}); cpu always is") from None
    trained = read_metadata(directory).get("config", {}).get("dataset", {})
    for key, ours in config.dataset.model_dump(include={"values", "held_out_share"}).items():
        if trained.get(key, ours) != ours:
            raise InputError(
                f"{directory}: the model was trained with dataset.{key} {trained[key]}, the config says "
                f"{ours}; what would be held out here may have been trained on"
            )
    return Cadmus.load(directory, device, config.evaluate.batch_size)


def _write(numbers: Any, output: Path, config: Config, directory: Path) -> None:
    """Write the numbers with what they were made by."""
    from cadmus.evaluate.numbers import write_numbers
    from cadmus.model.export import weights_digest
    from cadmus.provenance import commit

    metadata = {
        "config_digest": digest(config.model_dump()),
        "model_digest": weights_digest(directory),
        "commit": commit(),
    }
    write_numbers(numbers, output, metadata)


COMMANDS = (evaluate, grid, probe, figure)
