"""``cadmus card``."""

from pathlib import Path

import click

from cadmus.cli.options import MODEL, PATH


@click.command()
@click.argument("model", type=MODEL)
@click.option(
    "--completions",
    type=PATH,
    required=True,
    metavar="FILE",
    help="Results of `cadmus evaluate completions`.",
)
@click.option(
    "--metrics", type=PATH, metavar="FILE", help="Metrics of `cadmus train`, which have the last loss."
)
@click.option(
    "--output",
    type=PATH,
    metavar="FILE",
    help="Card to write, a .md file; README.md in MODEL by default.",
)
def card(model: Path, completions: Path, metrics: Path | None, output: Path | None) -> None:
    """Write the model card of the export in MODEL.

    The Hugging Face Hub shows the card as the page of the model. It describes the model, its data and
    training, the compute, the accuracy and the limits.

    \b
    Example:
      cadmus card results/quick/model --completions results/quick/experiments/completions.parquet \\
        --metrics results/quick/training/metrics.jsonl
    """
    from cadmus.docgen import hub
    from cadmus.docgen.model_card import write_model_card
    from cadmus.errors import InputError
    from cadmus.store import check_writable

    output = output or model / hub.CARD
    if output.suffix != ".md":
        raise InputError(f"--output {output}: must end in .md")
    check_writable(output)
    write_model_card(model, completions, metrics, output)


COMMANDS = (card,)
