"""``cadmus config`` and ``cadmus study``."""

from pathlib import Path
from typing import Any

import click
import yaml

from cadmus.cli import options
from cadmus.config import load_config
from cadmus.config.loading import read_values
from cadmus.config.study import is_study, load_study


@click.group()
def config() -> None:
    """Show a config with its defaults.

    \b
    Example:
      cadmus config show quick
    """


@config.command()
@click.argument("file", type=options.CONFIG)
@options.changes_option
def show(file: Path, changes: dict[str, Any]) -> None:
    """Validate FILE and print it with all defaults.

    FILE is a path or a name such as quick. A study is shown without defaults: they may differ between runs.

    \b
    Example:
      cadmus config show laptop
    """
    if is_study(file):
        load_study(file, changes)
        values = read_values(file, changes)
    else:
        values = load_config(file, changes).model_dump()
    click.echo(yaml.safe_dump(values, sort_keys=False).rstrip("\n"))


@click.group()
def study() -> None:
    """Compare runs that differ in some fields of a config.

    A section `study` describes the runs. Snakemake starts the missing ones, then collects and draws results.

    \b
    Examples:
      snakemake --cores all --configfile docs/findings/recipe/study.yaml
      cadmus study runs docs/findings/recipe/study.yaml
    """


_results = click.option("--results", type=options.DIRECTORY, default="results", help="Where all results are.")


@study.command()
@click.argument("config", type=options.CONFIG)
@options.changes_option
@_results
def runs(config: Path, changes: dict[str, Any], results: Path) -> None:
    """List the runs of a study and their directories. CONFIG is a config with a section `study`.

    \b
    Example:
      cadmus study runs docs/findings/recipe/study.yaml
    """
    from cadmus.study.results import unfinished

    study_runs = load_study(config, changes)
    rows = [("variant", "seed", "training", "state")]
    for run in study_runs.runs:
        reason = unfinished(study_runs, run, results)
        rows.append((run.variant, str(run.seed), str(results / run.training), reason or "finished"))
    options.echo_table(rows)


@study.command()
@click.argument("config", type=options.CONFIG)
@options.changes_option
@_results
@options.results_option
def collect(config: Path, changes: dict[str, Any], results: Path, output: Path) -> None:
    """Write the results of all finished runs to one table.

    CONFIG is a config with a section `study`. The command names the runs without results.

    \b
    Example:
      cadmus study collect docs/findings/recipe/study.yaml --output results/recipe/study.parquet
    """
    from cadmus.study.results import collect as write

    for variant, seed, reason in write(load_study(config, changes), results, output):
        options.echo(f"missing: {variant}, seed {seed}: {reason}", err=True)


@study.command()
@click.argument("results", type=options.PATH)
@click.option("--output", type=options.DIRECTORY, required=True, help="Directory of the files.")
def draw(results: Path, output: Path) -> None:
    """Write the tables, figures and page of a study. RESULTS is a file of `cadmus study collect`.

    \b
    Example:
      cadmus study draw results/recipe/study.parquet --output results/recipe
    """
    from cadmus.study.page import write_all

    for path in write_all(results, output):
        options.echo(path)
