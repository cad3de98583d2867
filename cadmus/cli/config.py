"""``cadmus config``."""

import json
from pathlib import Path

import click

from cadmus.cli.options import CONFIG, json_option


@click.group()
def config() -> None:
    """Show a config with its defaults.

    \b
    Example:
      cadmus config show quick
    """


@config.command()
@click.argument("file", type=CONFIG)
@json_option
def show(file: Path, as_json: bool) -> None:
    """Validate FILE and print it with all defaults.

    FILE is a path, or the name of a config such as quick. A study is printed without defaults, as they may
    differ between its runs.

    \b
    Examples:
      cadmus config show laptop
      cadmus config show laptop --json | jq .train.steps
    """
    import yaml

    from cadmus.config import extended, load_config, read_yaml
    from cadmus.config.study import is_study, load_study

    if is_study(file):
        load_study(file)
        values = extended(read_yaml(file), file)
    else:
        values = load_config(file).model_dump()
    if as_json:
        click.echo(json.dumps(values, indent=2))
    else:
        click.echo(yaml.safe_dump(values, sort_keys=False), nl=False)
