"""The experiments, ``cadmus evaluate`` and those after it, and ``cadmus figure``."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cadmus.cli.options import (
    CONFIG,
    DIRECTORY,
    EXISTING,
    PATH,
    check_results_path,
    device_option,
    one_of,
    usable_device,
)
from cadmus.errors import InputError
from cadmus.figures import NAMES, produce

if TYPE_CHECKING:
    import polars as pl

    from cadmus.config import Config
    from cadmus.dataset.reader import Table


def _experiment(command: Callable[..., None]) -> Callable[..., None]:
    """The options that all experiments on models have."""
    for option in (
        device_option,
        click.option("--output", type=PATH, required=True, metavar="FILE", help="Parquet file to write."),
        click.option(
            "--config",
            type=CONFIG,
            metavar="FILE",
            help="Config; by default the model's own, with default experiments.",
        ),
    ):
        command = option(command)
    return command


_model = click.option(
    "--model", "directory", type=EXISTING, required=True, metavar="DIR", help="Exported model."
)
_dataset = click.option(
    "--dataset", type=DIRECTORY, required=True, metavar="DIR", help="Dataset with the held-out split."
)

_json = click.option("--json", "as_json", is_flag=True, help="Print the accuracies as a JSON list.")


@click.command()
@_experiment
@_model
@_dataset
@_json
def evaluate(
    config: Path | None, directory: Path, output: Path, device: str | None, dataset: Path, as_json: bool
) -> None:
    """Complete held-out programs and grade them by execution.

    Table 3, accuracy by length and by examples, and the page of failures are made from the completions.

    \b
    Example:
      cadmus evaluate --model models/laptop --dataset results/laptop/dataset --output completions.parquet
    """
    run = _begin(config, output, directory)
    table, training_programs = _held_out(run, dataset)
    model = _load(run, directory, device)

    from cadmus.evaluate.completion import complete

    completions = complete(model, table, run.dataset.max_length, run.evaluate.programs)
    _write(completions.with_columns(training_programs), output, run, directory, split=run.evaluate.split)

    from cadmus.evaluate.results import accuracy_by

    numbers = accuracy_by(completions, "template")
    _tell(numbers if as_json else numbers.filter(metric="verified"), "template", as_json)


@click.command()
@_experiment
@click.option(
    "--snapshots", type=DIRECTORY, required=True, metavar="DIR", help="What `cadmus train --snapshots` wrote."
)
@_dataset
def curve(config: Path | None, snapshots: Path, output: Path, device: str | None, dataset: Path) -> None:
    """Accuracy against the compute of a training, from its snapshots.

    \b
    Example:
      cadmus curve --snapshots results/quick/training/snapshots --dataset results/quick/dataset \\
        --output accuracy_by_compute.parquet
    """
    from cadmus.train.snapshots import find_snapshots

    found = find_snapshots(snapshots)
    run = _begin(config, output, found[-1])

    from cadmus.evaluate.curve import accuracy_by_compute

    table, _ = _held_out(run, dataset)

    def load(path: Path) -> Any:
        return _load(run, path, device)

    numbers = accuracy_by_compute(found, load, table, run.dataset.max_length, run.evaluate)
    _write(numbers, output, run, found[-1])


@click.command()
@_experiment
@_model
@_json
def grid(config: Path | None, directory: Path, output: Path, device: str | None, as_json: bool) -> None:
    """Accuracy at the comparator for every pair of values.

    \b
    Example:
      cadmus grid --model models/laptop --output comparison_grid.parquet
    """
    run = _begin(config, output, directory)
    model = _load(run, directory, device)

    from cadmus.evaluate.grid import comparison_grid
    from cadmus.evaluate.regions import summary

    numbers = comparison_grid(
        model, run.evaluate.grid, run.dataset.values, run.dataset.eval_fraction, run.seed
    )
    if not numbers["programs"].sum():
        raise InputError(
            f"evaluate.grid: no held-out comparison has values from {run.evaluate.grid.low} to "
            f"{run.evaluate.grid.high}; choose a range that meets dataset.values"
        )
    _write(numbers, output, run, directory)
    _tell(summary(numbers), "region", as_json)


@click.command()
@_experiment
@_model
def probe(config: Path | None, directory: Path, output: Path, device: str | None) -> None:
    """Read the compared values off every layer and token.

    By logistic regressions, for X and for Y.

    \b
    Example:
      cadmus probe --model models/laptop --output probe.parquet
    """
    run = _begin(config, output, directory)
    model = _load(run, directory, device)

    from cadmus.probe.regression import probe

    settings, dataset = run.evaluate.probe, run.dataset
    numbers = probe(model, settings, dataset.values, dataset.eval_fraction, run.seed, model.device)
    _write(numbers, output, run, directory)


@click.command()
@_experiment
@_model
def lens(config: Path | None, directory: Path, output: Path, device: str | None) -> None:
    """What each layer would say next if it were the last one.

    This is known as the logit lens.

    \b
    Example:
      cadmus lens --model models/laptop --output logit_lens.parquet
    """
    run = _begin(config, output, directory)
    model = _load(run, directory, device)

    from cadmus.probe.lens import logit_lens

    n, dataset = run.evaluate.lens_programs, run.dataset
    numbers = logit_lens(model, n, dataset.values, dataset.eval_fraction, run.seed)
    _write(numbers, output, run, directory)


@click.command()
@_experiment
@_model
def patch(config: Path | None, directory: Path, output: Path, device: str | None) -> None:
    """Exchange hidden states and see whose comparator follows.

    The state at the end of an expression is put into another comparison (activation patching).

    \b
    Example:
      cadmus patch --model models/laptop --output patching.parquet
    """
    run = _begin(config, output, directory)
    model = _load(run, directory, device)

    from cadmus.probe.patching import patching

    n, layers, dataset = run.evaluate.patch_programs, model.sizes.layers, run.dataset
    numbers = patching(model, n, layers, dataset.values, dataset.eval_fraction, run.seed)
    _write(numbers, output, run, directory)


@click.command(epilog=f"Figures, tables and pages: {', '.join(NAMES)}.")
@click.argument("name", shell_complete=one_of(lambda: NAMES))
@click.option(
    "--results", type=PATH, multiple=True, metavar="FILE", help="Numbers file; again for a second one."
)
@click.option(
    "--output",
    type=PATH,
    required=True,
    metavar="DIR_OR_FILE",
    help="Directory, or the path of one of the files; the other formats are put beside it.",
)
def figure(name: str, numbers: tuple[Path, ...], output: Path) -> None:
    """Make the figure, table or page NAME from its numbers alone.

    A figure is written as .pdf, .png and .csv, a table as .csv, .md and .tex, a page as .html.

    \b
    Examples:
      cadmus figure comparison_grid --results comparison_grid.parquet --output figures
      cadmus figure table2_instructions --output table2.md
    """
    for path in produce(name, list(numbers), output):
        click.echo(path)


def _begin(config: Path | None, output: Path, directory: Path) -> "Config":
    """The config, once it is clear that the results will find their place."""
    from cadmus.config import load_config

    check_results_path(output)
    if config is not None:
        return load_config(config)
    from cadmus.model import METADATA
    from cadmus.model.export import trained_config

    trained = trained_config(directory)
    if trained is None:
        raise InputError(f"{directory / METADATA}: says nothing of a config; name one with --config")
    return trained


def _held_out(config: "Config", dataset: Path) -> "tuple[Table, pl.Expr]":
    """The programs to complete, and the column ``training_programs`` for tables with a ``template``."""
    import numpy as np
    import polars as pl

    from cadmus.dataset.manifest import read_manifest
    from cadmus.dataset.reader import read_split
    from cadmus.dataset.splits import TRAIN, split_of
    from cadmus.evaluate.results import SOLVE

    trained = {name: counts["programs"] for name, counts in read_manifest(dataset)["splits"]["train"].items()}
    trained[SOLVE] = trained.get("equality", 0)
    table = read_split(dataset, config.evaluate.split)
    if table.programs.lengths.max() > config.dataset.max_length:
        raise InputError(
            f"{dataset}: has a program of {table.programs.lengths.max()} instructions; the config allows "
            f"dataset.max_length {config.dataset.max_length}"
        )
    share = config.dataset.eval_fraction
    strangers = np.flatnonzero(split_of(table.programs, share) == TRAIN)
    if len(strangers):
        (first,) = table.programs.take(strangers[:1]).to_strings()
        raise InputError(
            f"{dataset}: {len(strangers)} of its {config.evaluate.split} programs, {first!r} for one, are "
            f"for training where dataset.eval_fraction is {share}; sample it with the share of the model"
        )
    programs = pl.col("template").replace_strict(trained, return_dtype=pl.Int64)
    return table, programs.alias("training_programs")


def _load(config: "Config", directory: Path, device: str | None) -> Any:
    from cadmus.model.export import read_metadata
    from cadmus.model.inference import Cadmus

    device = usable_device(device)
    trained = read_metadata(directory).get("config", {}).get("dataset", {})
    for key, ours in config.dataset.model_dump(include={"values", "eval_fraction"}).items():
        if trained.get(key, ours) != ours:
            raise InputError(
                f"{directory}: the model was trained with dataset.{key} {trained[key]}, the config says "
                f"{ours}; what would be held out here may have been trained on"
            )
    return Cadmus.load(directory, device, config.evaluate.batch_size)


def _write(numbers: Any, output: Path, config: "Config", directory: Path, **noted: str) -> None:
    """Write the numbers with what they were made by, and what else is ``noted``."""
    from cadmus.common.provenance import commit
    from cadmus.config import digest
    from cadmus.evaluate.results import write_results
    from cadmus.model.export import weights_digest

    metadata = {
        "config_digest": digest(config.model_dump()),
        "model_digest": weights_digest(directory),
        "commit": commit(),
        **noted,
    }
    write_results(numbers, output, metadata)


def _tell(numbers: "pl.DataFrame", of_what: str, as_json: bool) -> None:
    """Print accuracies: a line each, called by the column ``of_what``, or all columns as JSON."""
    from cadmus.evaluate.intervals import as_text

    if as_json:
        click.echo(json.dumps(numbers.to_dicts(), indent=2))
        return
    for row in numbers.iter_rows(named=True):
        accuracy = as_text(row["accuracy"], row["low"], row["high"])
        click.echo(f"{row[of_what].replace('_', ' ')}: {accuracy} of {row['programs']:,} programs")


COMMANDS = (evaluate, curve, grid, probe, lens, patch, figure)
