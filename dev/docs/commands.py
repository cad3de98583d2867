"""The command reference of the documentation site: the help of every command."""

import click

from cadmus.cli.main import cadmus


def reference() -> str:
    """Return a Markdown section for each command."""
    return _describe(cadmus, click.Context(cadmus, info_name="cadmus", show_default=True), 2)


def _describe(command: click.Command, context: click.Context, level: int) -> str:
    """Return the section of a command and those of its subcommands."""
    text = f"{'#' * level} `{context.command_path}`\n\n```text\n{command.get_help(context)}\n```\n\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None and not below.hidden:
                inner = click.Context(below, info_name=name, parent=context)
                text += _describe(below, inner, level + 1 if context.parent else level)
    return text
