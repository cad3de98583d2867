"""``cadmus evaluate``, the experiments, and ``cadmus figure``."""

import inspect
import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cadmus import experiments
from cadmus.cli.options import (
    CONFIG,
    DIRECTORY,
    MODEL,
    PATH,
    check_results_path,
    echo,
    echo_table,
    usable_device,
)
from cadmus.config import Evaluate, Section
from cadmus.errors import InputError, suggest

if TYPE_CHECKING:
    import polars as pl

    from cadmus.experiments.experiment import Findings

SHORT = ("programs", "programs_per_pixel")
"""Settings whose option is also -n."""


class _Experiments(click.Group):
    """A command per experiment of the registry, made when it is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(experiments.NAMES)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        return _command(name) if name in experiments.NAMES else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand as error:
            # Click does not know the names, as the commands are not made yet.
            raise click.exceptions.NoSuchCommand(
                error.command_name, possibilities=experiments.NAMES, ctx=ctx
            ) from None


@click.group(cls=_Experiments)
def evaluate() -> None:
    """Run an experiment on a trained model.

    An experiment writes its results to a Parquet file and prints a summary. Programs that the model may have
    been trained on are refused.

    \b
    Examples:
      cadmus evaluate grid --model laptop --output grid.parquet
      cadmus evaluate completions --model laptop --dataset results/laptop/dataset --output c.parquet
      cadmus evaluate pass_at_k --samples 64 --temperature 0.8 --model results/quick/model \\
        --dataset results/quick/dataset --output pass_at_k.parquet
    """


def _command(name: str) -> click.Command:
    """Return the command of an experiment."""
    experiment = experiments.get(name)
    subject = "snapshots" if experiment.snapshots else "model"
    options = [
        click.Option(
            [f"--{subject}", "directory"],
            type=DIRECTORY if experiment.snapshots else MODEL,
            required=True,
            metavar="DIR",
            help="Directory with the snapshots of a training."
            if experiment.snapshots
            else "Exported model: a directory, or the name of a shipped one.",
        ),
        click.Option(
            ["--config"],
            type=CONFIG,
            metavar="FILE",
            help="Config: a file or a name; by default that of the model, with default settings.",
        ),
        click.Option(
            ["--output"], type=PATH, required=True, metavar="FILE", help="Parquet file of the results."
        ),
        click.Option(["--device"], metavar="DEVICE", help="torch device; the GPU if there is one, else cpu."),
        click.Option(["--json", "as_json"], is_flag=True, help="Print a JSON list."),
    ]
    if experiment.dataset:
        options.append(
            click.Option(
                ["--dataset"],
                type=DIRECTORY,
                required=True,
                metavar="DIR",
                help="Dataset with the test split.",
            )
        )
    options += _settings_options(type(getattr(Evaluate(), name)))

    def run(
        directory: Path,
        config: Path | None,
        output: Path,
        device: str | None,
        dataset: Path | None = None,
        as_json: bool = False,
        **changed: str | None,
    ) -> None:
        from cadmus.config import load_config
        from cadmus.evaluate.results import write_results
        from cadmus.experiments.experiment import load_subject

        check_results_path(output)
        loaded = None if config is None else load_config(config)
        subject = load_subject(experiment, directory, loaded, usable_device(device), dataset)
        given = {key: value for key, value in changed.items() if value is not None}
        subject = subject.with_settings(name, given)
        results = experiment.run(subject)
        write_results(results, output, subject.metadata())
        if experiment.summary:
            _print(experiment.summary(results), as_json)
        elif experiment.findings:
            _print_findings(experiment.findings(results), as_json)

    arguments = f"--{subject} {'DIR' if experiment.snapshots else 'laptop'} --output {name}.parquet"
    dataset_option = " --dataset DIR" if experiment.dataset else ""
    example = f"\b\nExample:\n  cadmus evaluate {name} {arguments}{dataset_option}"
    return click.Command(
        name,
        callback=run,
        params=list(options),
        help=f"{inspect.cleandoc(experiment.measure.__doc__ or '')}\n\n{example}",
    )


def _settings_options(settings: type[Section]) -> list[click.Option]:
    """Return an option for each number in the config section of an experiment; the section checks it."""
    return [
        click.Option(
            [*["-n"] * (key in SHORT), f"--{key.replace('_', '-')}", key],
            metavar="N" if field.annotation is int else "NUMBER",
            help=f"{description[:1].upper()}{description[1:]}; by default that of the config.",
        )
        for key, field in settings.model_fields.items()
        if field.annotation in (int, float)
        for description in [" ".join((field.description or "").split())]
    ]


class _Figure(click.Command):
    """The command, whose help lists the figures."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.epilog = f"Figures, tables and pages: {', '.join(experiments.figures())}."
        super().format_epilog(ctx, formatter)


def _known_figure(ctx: click.Context, param: click.Parameter, name: str) -> str:
    """Refuse an unknown figure, before an option that is missing."""
    if name not in experiments.figures() and not ctx.resilient_parsing:
        raise InputError(f"no figure, table or page {name!r}; {suggest(name, experiments.figures())}")
    return name


@click.command(cls=_Figure)
@click.argument("name", callback=_known_figure)
@click.option(
    "--results", type=PATH, multiple=True, metavar="FILE", help="Result file; repeat for a second one."
)
@click.option(
    "--output",
    type=PATH,
    required=True,
    metavar="DIR_OR_FILE",
    help="Directory, or the path of one of the files; the other formats go beside it.",
)
def figure(name: str, results: tuple[Path, ...], output: Path) -> None:
    """Draw the figure, table or page NAME from result files alone.

    A figure is written as .pdf, .png and .csv, a table as .csv, .md and .tex, and a page as .html.

    \b
    Examples:
      cadmus figure comparison_grid --results grid.parquet --output figures
      cadmus figure table2_instructions --output table2.md
    """
    from cadmus.experiments.drawing import produce

    for path in produce(name, list(results), output):
        echo(path)


def _print_findings(findings: "Findings", as_json: bool) -> None:
    """Print findings as text, or their table as JSON."""
    from cadmus.evaluate.intervals import percent
    from cadmus.evaluate.questions import title

    if as_json:
        click.echo(json.dumps(findings.table.to_dicts(), indent=2))
        return

    def cell(column: str, value: str | float | None) -> str:
        if value is None or isinstance(value, str):
            return title(value or "")
        return (
            f"{value:,}" if isinstance(value, int) else f"{value:.2f}" if column == "loss" else percent(value)
        )

    click.echo(f"{findings.title}\n")
    rows = findings.table.iter_rows(named=True)
    header = [column.replace("_", " ") for column in findings.table.columns]
    echo_table([header, *([cell(*named) for named in row.items()] for row in rows)])


def _print(accuracies: "pl.DataFrame", as_json: bool) -> None:
    """Print accuracies or losses: a line each, named by the first column, or all columns as JSON.

    Of pass@k, the largest k is printed.
    """
    import polars as pl

    from cadmus.evaluate.intervals import as_text, loss_as_text, percent
    from cadmus.evaluate.questions import title
    from cadmus.evaluate.regions import REGIONS
    from cadmus.evaluate.results import best_baseline

    if as_json:
        click.echo(json.dumps(accuracies.to_dicts(), indent=2))
        return
    if "loss" in accuracies.columns:
        for row in accuracies.iter_rows(named=True):
            loss = loss_as_text(row["loss"], row["low"], row["high"])
            echo(f"{title(row['template'])}: {loss} nats per token of {row['programs']:,} completions")
        return
    graded = "metric" in accuracies.columns
    solved = "solved"
    if "k" in accuracies.columns:
        accuracies = accuracies.filter(pl.col("k") == pl.col("k").max())
        solved += f"@{accuracies['k'][0]}"
    shown = accuracies.filter(policy="model", metric="solved") if graded else accuracies
    for row in shown.iter_rows(named=True):
        name = next(iter(row.values()))
        accuracy = as_text(row["accuracy"], row["low"], row["high"])
        if row.get("baseline") is not None:
            accuracy += f" correct, best baseline ({row['best_baseline']} {percent(row['baseline'])})"
        if graded:
            best = best_baseline(accuracies.filter(question=name)).row(0, named=True)
            baseline = f"{best['policy'].replace('_', ' ')} {percent(best['accuracy'])}"
            accuracy += f" {solved}, best baseline ({baseline})"
        echo(f"{REGIONS.get(name, title(name))}: {accuracy} of {row['programs']:,} programs")
