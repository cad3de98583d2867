"""``cadmus card``."""

from pathlib import Path

import click

from cadmus.cli.options import MODEL, PATH


@click.command()
@click.argument("model", type=MODEL)
@click.option(
    "--completions", type=PATH, required=True, metavar="FILE", help="What `cadmus evaluate` wrote of it."
)
@click.option(
    "--metrics", type=PATH, required=True, metavar="FILE", help="What `cadmus train` wrote beside it."
)
@click.option(
    "--output",
    type=PATH,
    metavar="FILE",
    help="The card to write, a .md file; README.md in MODEL by default.",
)
def card(model: Path, completions: Path, metrics: Path, output: Path | None) -> None:
    """Write the model card of the export in MODEL, from files alone.

    It is for the Hugging Face hub, to which the directory can be uploaded with it as it is, and says what the
    model is, what it was trained on and how, what that took, how accurate it is and what it cannot do.

    \b
    Example:
      cadmus card results/quick/model --completions results/quick/experiments/completions.parquet \\
        --metrics results/quick/training/metrics.jsonl
    """
    from cadmus.common.files import check_writable
    from cadmus.docgen import hub
    from cadmus.docgen.model_card import write_model_card
    from cadmus.errors import InputError

    output = output or model / hub.CARD
    if output.suffix != ".md":
        raise InputError(f"--output {output}: a model card is called something.md")
    check_writable(output)
    write_model_card(model, completions, metrics, output)


COMMANDS = (card,)
