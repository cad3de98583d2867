"""``cadmus evaluate``, the experiments, ``cadmus score`` and ``cadmus figure``."""

import inspect
from pathlib import Path
from typing import Any

import click

from cadmus import experiments, pipeline, plugins
from cadmus.cli import options
from cadmus.config import load_config
from cadmus.errors import InputError, naming, suggest
from cadmus.evaluate.questions import title
from cadmus.evaluate.statistics.intervals import percent
from cadmus.experiments.experiment import Summary


@click.group()
def evaluate() -> None:
    """Run an experiment on a trained model.

    An experiment writes its results to a Parquet file and prints a summary. Programs that the model may have
    been trained on are refused.

    \b
    Examples:
      cadmus evaluate grid --model laptop --output grid.parquet
      cadmus evaluate completions --model laptop --dataset results/laptop/dataset --output c.parquet
      cadmus evaluate pass_at_k --config quick --set evaluate.pass_at_k.samples=64 \\
        --model results/quick/model --dataset results/quick/dataset --output pass_at_k.parquet
    """


def _command(name: str) -> click.Command:
    """Return the command of an experiment."""
    experiment = experiments.get(name)
    kind: click.Path = options.MODEL
    subject, value = "--model", "laptop"
    subject_help = "Exported model: a directory, or the name of a shipped one."
    if experiment.snapshots:
        kind, subject, value = options.DIRECTORY, "--snapshots", "DIR"
        subject_help = "Directory with the snapshots of a training."

    def run(
        directory: Path,
        config: Path | None,
        output: Path,
        changes: dict[str, Any],
        device: str | None,
        dataset: Path | None = None,
        baselines: Path | None = None,
    ) -> None:
        run_config = options.optional_config(config, changes)
        device = options.usable_device(device)
        results = pipeline.evaluate(name, directory, output, dataset, run_config, device, baselines)
        if experiment.summary:
            _print(experiment.summary(results))

    parameters = [
        click.option(subject, "directory", type=kind, required=True, help=subject_help),
        click.option(
            "--config",
            type=options.CONFIG,
            help="Config: a file or a name; by default that of the model, with default settings.",
        ),
        options.results_option,
        options.changes_option,
        options.device_option,
    ]
    if experiment.dataset:
        split_help = "Dataset with the test split."
        parameters.append(click.option("--dataset", type=options.DIRECTORY, required=True, help=split_help))
    if experiment.baselines:
        file_help = "File of `cadmus baselines` for the dataset; without it, they are measured here."
        parameters.append(click.option("--baselines", type=options.PATH, help=file_help))
    arguments = f"{subject} {value} --output {name}.parquet"
    if experiment.dataset:
        arguments += " --dataset DIR"
    text = inspect.cleandoc(experiment.measure.__doc__ or "")
    text += f"\n\n\b\nExample:\n  cadmus evaluate {name} {arguments}"
    return click.command(name, help=text)(options.with_options(*parameters)(run))


for _name in experiments.NAMES:
    evaluate.add_command(_command(_name))


@click.command()
@options.config_option
@options.changes_option
@click.option("--dataset", type=options.DIRECTORY, required=True, help="Dataset with the test split.")
@options.results_option
def baselines(config: Path, changes: dict[str, Any], dataset: Path, output: Path) -> None:
    """Grade the baselines on a dataset.

    They and the best possible answers depend on the dataset alone, so `cadmus evaluate completions` takes
    one file for all its models.

    \b
    Example:
      cadmus baselines --config quick --dataset results/quick/dataset --output baselines.parquet
    """
    pipeline.baselines(load_config(config, changes), dataset, output)


@click.command()
@click.argument("first", type=options.PATH)
@click.argument("second", type=options.PATH)
def compare(first: Path, second: Path) -> None:
    """Compare two models on the programs that both have completed.

    FIRST and SECOND are results of `cadmus evaluate completions` on one dataset. For each question the
    command prints the accuracies and their difference with its 95% interval, paired by program. A * marks an
    interval without 0.

    \b
    Example:
      cadmus compare results/quick/experiments/completions.parquet \\
        results/wider/experiments/completions.parquet
    """
    from cadmus.evaluate.statistics.results import compared
    from cadmus.store import read_results

    declared = experiments.table("completions")
    one, other = (read_results(path, declared)[0] for path in (first, second))
    with naming(f"{first}, {second}"):
        rows = compared(one, other).to_dicts()
    options.echo_table([("question", "programs", "first", "second", "difference"), *map(_difference, rows)])


def _difference(row: dict[str, Any]) -> tuple[str, ...]:
    points = [f"{100 * row[name]:+.1f}" for name in ("difference", "low", "high")]
    mark = "*" if row["low"] > 0 or row["high"] < 0 else ""
    accuracies = percent(row["first"]), percent(row["second"])
    return title(row["question"]), f"{row['programs']:,}", *accuracies, "{} [{}, {}]{}".format(*points, mark)


@click.command()
@click.argument("scored", metavar="FILE", type=options.PATH)
@options.model_option
@options.results_option
@options.integer_option("-n", "--programs", low=2, default=500, help="Pairs of prompts per variable.")
@options.integer_option("--directions", default=8, help="Features whose directions are exchanged.")
@click.option("--seed", type=click.IntRange(0), default=0, metavar="SEED", help="Random seed.")
@options.device_option
def score(
    scored: Path,
    directory: Path | None,
    output: Path,
    programs: int,
    directions: int,
    seed: int,
    device: str | None,
) -> None:
    """Score features of states by the VM.

    FILE has features, as safetensors: a matrix `layer.N` of shape (features, width) for each layer to score;
    the embedding is 0. With a vector `layer.N.bias` the features are what a ReLU leaves, and a matrix
    `layer.N.decoder` has their directions. Other encoders: `score` in `cadmus.labs.interchange.score`.

    For each layer and variable: R² of all features, correlation of the best one and of one that no other
    variable has, and how often the answer is the counterfactual one after an exchange of the best features'
    directions, of learned and of random ones.

    \b
    Example:
      cadmus score features.safetensors --model laptop --output scores.parquet
    """
    import polars as pl

    from cadmus.model import find_model
    from cadmus.model.export import read_metadata, weights_digest
    from cadmus.model.inference import Cadmus
    from cadmus.store import write_parquet

    directory = find_model(directory)
    of_labs = plugins.declared("SCORES")
    if scored.suffix not in of_labs:
        raise InputError(f"{scored}: no lab scores such a file; give one that ends in {', '.join(of_labs)}")
    lab, name = of_labs[scored.suffix]
    scoring: plugins.Scoring = plugins.module(lab, name).SCORING
    read = scoring.read(scored)
    model = Cadmus.load(directory, options.usable_device(device))
    config = read_metadata(directory).config
    dataset = None if config is None else config.dataset
    table = scoring.score(model, read, programs=programs, directions=directions, seed=seed, dataset=dataset)
    write_parquet(output, "scores", table, {"model_digest": weights_digest(directory)})
    table = table.select("variable", pl.exclude("variable"))
    shown = [
        ["" if cell is None else f"{cell:.2f}" if isinstance(cell, float) else str(cell) for cell in row]
        for row in table.iter_rows()
    ]
    options.echo_table([table.columns, *shown])


@click.command(epilog=f"Figures and tables: {', '.join(experiments.figures())}.")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("--results", type=options.PATH, multiple=True, help="Result file; repeat for several.")
@click.option(
    "--output",
    "outputs",
    type=options.PATH,
    required=True,
    multiple=True,
    metavar="DIR_OR_FILE",
    help="Directory, or the path of one of the files; the other formats go next to it. Repeat for each NAME.",
)
def figure(names: tuple[str, ...], results: tuple[Path, ...], outputs: tuple[Path, ...]) -> None:
    """Draw figures or tables from results alone.

    All NAMEs have the same results; `training_curve` compares several runs. A figure is written as .pdf, .png
    and .csv, a table as .csv and .md.

    \b
    Examples:
      cadmus figure comparison_grid --results grid.parquet --output figures
      cadmus figure table2_instructions --output table2.md
      cadmus figure probe_layers probe_final_block --results probe.parquet --output . --output .
      cadmus figure training_curve --results a/metrics.jsonl --results b/metrics.jsonl --output a_and_b.png
    """
    if len(outputs) != len(names):
        raise InputError(f"--output: give one for each of the {len(names)} names, not {len(outputs)}")
    for name in set(names) - experiments.figures().keys():
        raise InputError(f"no figure or table {name!r}; {suggest(name, experiments.figures())}")
    for name, output in zip(names, outputs, strict=True):
        for path in pipeline.draw(name, results, output):
            options.echo(path)


def _print(summary: Summary) -> None:
    def cell(value: str | float | None) -> str:
        if value is None or isinstance(value, str):
            return title(value or "")
        return f"{value:,}" if isinstance(value, int) else percent(value)

    rows = [[*map(cell, row)] for row in summary.table.iter_rows()]
    click.echo(f"{summary.title}\n")
    options.echo_table([[column.replace("_", " ") for column in summary.table.columns], *rows])
