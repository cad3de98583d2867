"""``cadmus ablate``."""

from pathlib import Path

import click

from cadmus.cli.options import CONFIG, DIRECTORY, PATH, WholeNumber


@click.command()
@click.argument("config", type=CONFIG)
@click.argument("variants", type=PATH)
@click.option("--dataset", type=DIRECTORY, required=True, metavar="DIR", help="Dataset of the config.")
@click.option("--runs", type=DIRECTORY, required=True, metavar="DIR", help="Directory of the runs.")
@click.option("--output", type=PATH, required=True, metavar="FILE", help="CSV file, one row per variant.")
@click.option(
    "--jobs",
    default=1,
    show_default=True,
    type=WholeNumber(1),
    metavar="N",
    help="Variants that run at once.",
)
def ablate(config: Path, variants: Path, dataset: Path, runs: Path, output: Path, jobs: int) -> None:
    """Train variants of a config and compare their results.

    VARIANTS is a YAML file that maps the name of each variant to the fields of the sections model and train
    that differ from CONFIG. All variants share the dataset and the cores. After an interruption, the same
    command resumes.

    \b
    Example:
      snakemake --cores all --configfile config/ablation.yaml -- results/ablation/dataset/manifest.json
      cadmus ablate config/ablation.yaml config/variants/fast.yaml --dataset results/ablation/dataset \\
        --runs results/ablation/runs --output results/ablation/fast.csv --jobs 2
    """
    from cadmus.ablation import ablate as run_all
    from cadmus.common.files import check_writable

    check_writable(output)
    run_all(config, variants, dataset, runs, output, jobs, click.echo)


COMMANDS = (ablate,)
