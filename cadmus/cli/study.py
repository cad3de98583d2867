"""``cadmus study``."""

from pathlib import Path

import click

from cadmus.cli.options import CONFIG, DIRECTORY, PATH, check_results_path, echo, echo_table


@click.group()
def study() -> None:
    """Compare runs that differ in some fields of a config.

    A config with a section `study` describes the runs. Snakemake starts the missing ones, then collects and
    draws their results.

    \b
    Examples:
      snakemake --cores all --configfile config/studies/recipe.yaml
      cadmus study runs config/studies/recipe.yaml
    """


_RESULTS = click.option(
    "--results",
    type=DIRECTORY,
    default="results",
    show_default=True,
    metavar="DIR",
    help="Directory of all results.",
)


@study.command()
@click.argument("config", type=CONFIG)
@_RESULTS
def runs(config: Path, results: Path) -> None:
    """List the runs of a study and their directories.

    CONFIG is a config with a section `study`.

    \b
    Example:
      cadmus study runs config/studies/recipe.yaml
    """
    from cadmus.config.study import load_study
    from cadmus.study.results import unfinished

    found = load_study(config)
    rows = [("variant", "seed", "training", "state")]
    for run in found.runs:
        reason = unfinished(found, run, results)
        rows.append((run.variant, str(run.seed), str(results / run.training), reason or "finished"))
    echo_table(rows)


@study.command()
@click.argument("config", type=CONFIG)
@_RESULTS
@click.option("--output", type=PATH, required=True, metavar="FILE", help="Parquet file of the results.")
@click.option(
    "--elsewhere",
    type=PATH,
    multiple=True,
    metavar="FILE",
    help="Results of the same runs on another machine, written by this command.",
)
def collect(config: Path, results: Path, output: Path, elsewhere: tuple[Path, ...]) -> None:
    """Write the results of all finished runs to one table.

    CONFIG is a config with a section `study`. The command names the runs without results.

    \b
    Examples:
      cadmus study collect config/studies/recipe.yaml --output results/recipe/study.parquet
      cadmus study collect config/studies/recipe.yaml --elsewhere other.parquet --output both.parquet
    """
    from cadmus.config.study import load_study
    from cadmus.study.results import collect as write

    check_results_path(output)
    for missing in write(load_study(config), results, output, elsewhere):
        echo(f"missing: {missing.variant}, seed {missing.seed}: {missing.reason}", err=True)


@study.command()
@click.argument("results", type=PATH)
@click.option("--output", type=DIRECTORY, required=True, metavar="DIR", help="Directory of the files.")
def draw(results: Path, output: Path) -> None:
    """Write the tables, figures and page of a study.

    RESULTS is a file written by `cadmus study collect`; nothing else is read.

    \b
    Example:
      cadmus study draw results/recipe/study.parquet --output results/recipe
    """
    from cadmus.study.drawing import write_all

    for path in write_all(results, output):
        echo(path)
