"""``cadmus card``."""

from pathlib import Path

import click

_PATH = click.Path(path_type=Path)


@click.command()
@click.argument("model", type=_PATH)
@click.option(
    "--completions", type=_PATH, required=True, metavar="FILE", help="What `cadmus evaluate` wrote of it."
)
@click.option(
    "--metrics", type=_PATH, required=True, metavar="FILE", help="What `cadmus train` wrote beside it."
)
@click.option("--output", type=_PATH, required=True, metavar="FILE", help="The card to write, a .md file.")
def card(model: Path, completions: Path, metrics: Path, output: Path) -> None:
    """Write the model card of the export in the directory MODEL, for the Hugging Face hub.

    It says what the model is, what it was trained on and how, what that took, how accurate it is and what it
    cannot do, from these files alone.

    \b
    Example:
      cadmus card results/quick/model --completions results/quick/experiments/completions.parquet
        --metrics results/quick/training/metrics.jsonl --output README.md
    """
    from cadmus.card import write_model_card
    from cadmus.errors import InputError
    from cadmus.files import check_writable

    if output.suffix != ".md":
        raise InputError(f"--output {output}: a model card is called something.md")
    check_writable(output)
    write_model_card(model, completions, metrics, output)


COMMANDS = (card,)
