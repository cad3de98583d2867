"""``cadmus config``."""

import json
from pathlib import Path

import click

from cadmus.cli.options import CONFIG, DIRECTORY, json_option


@click.group()
def config() -> None:
    """Show a config with its defaults, or write their documentation.

    \b
    Examples:
      cadmus config show config/quick.yaml
      cadmus config document
    """


@config.command()
@click.argument("file", type=CONFIG)
@json_option
def show(file: Path, as_json: bool) -> None:
    """Print FILE with all its defaults, or what is wrong with it.

    \b
    Examples:
      cadmus config show config/laptop.yaml
      cadmus config show config/laptop.yaml --json | jq .train.steps
    """
    import yaml

    from cadmus.config import load_config

    values = load_config(file).model_dump()
    if as_json:
        click.echo(json.dumps(values, indent=2))
    else:
        click.echo(yaml.safe_dump(values, sort_keys=False), nl=False)


@config.command()
@click.argument("root", default=".", type=DIRECTORY)
def document(root: Path) -> None:
    """Write config/README.md and the JSON schema in ROOT.

    ROOT is a checkout, whose cadmus/config/schema.py says what they say.

    \b
    Example:
      cadmus config document
    """
    from cadmus.common.files import replacing
    from cadmus.docgen.config_reference import documents
    from cadmus.errors import InputError

    if not (root / "cadmus/config/schema.py").is_file():
        raise InputError(
            f"{root}: not a checkout of Cadmus (cadmus/config/schema.py is missing); name its folder"
        )

    for path, text in documents(root).items():
        with replacing(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
        click.echo(path)


COMMANDS = (config,)
