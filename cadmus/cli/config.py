"""``cadmus config``."""

from pathlib import Path

import click


@click.group()
def config() -> None:
    """Look at configurations."""


@config.command()
@click.argument("file", type=click.Path(path_type=Path))
def show(file: Path) -> None:
    """Print the config FILE with all its defaults, or what is wrong with it."""
    import yaml

    from cadmus.config import load_config

    click.echo(yaml.safe_dump(load_config(file).model_dump(), sort_keys=False), nl=False)


@config.command()
@click.argument("root", default=".", type=click.Path(path_type=Path, exists=True, file_okay=False))
def document(root: Path) -> None:
    """Write config/README.md and the JSON schema of the checkout in ROOT from cadmus/config.py."""
    from cadmus.config_reference import documents
    from cadmus.errors import InputError
    from cadmus.files import replacing

    if not (root / "cadmus/config.py").is_file():
        raise InputError(f"{root}: not a checkout of Cadmus (cadmus/config.py is missing); name its folder")

    for path, text in documents(root).items():
        with replacing(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
        click.echo(path)


COMMANDS = (config,)
