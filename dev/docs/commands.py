"""The command reference of the documentation site, generated from the commands."""

import inspect
import re

import click

from cadmus.tables import code, markdown


def reference() -> str:
    """Return the usage, help and options of every command as Markdown."""
    from cadmus.cli.main import cadmus

    return "\n".join(_describe(cadmus, click.Context(cadmus, info_name="cadmus", show_default=True), 2))


def _describe(command: click.Command, context: click.Context, level: int) -> list[str]:
    """Return the section of a command and those of its subcommands."""
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    parts = [
        f"{'#' * level} `{context.command_path}`\n",
        f"```text\n{usage}\n```\n",
        _prose(command.help or ""),
        _options(command, context),
    ]
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None and not below.hidden:
                inner = click.Context(below, info_name=name, parent=context)
                parts += _describe(below, inner, level + 1 if context.parent else level)
    return parts


def _prose(text: str) -> str:
    r"""Return a help text as Markdown; a paragraph after ``\b`` becomes a code block."""
    paragraphs = []
    for paragraph in inspect.cleandoc(text).split("\f")[0].split("\n\n"):
        if not paragraph.startswith("\b\n"):
            paragraphs.append(_plain(paragraph))
            continue
        title, _, lines = paragraph.removeprefix("\b\n").partition("\n")
        language = "sh" if title.startswith("Example") else "text"
        paragraphs.append(f"{_plain(title)}\n\n```{language}\n{inspect.cleandoc(chr(10) + lines)}\n```")
    return "\n\n".join(paragraphs) + "\n"


def _options(command: click.Command, context: click.Context) -> str:
    # The help of the command describes the arguments.
    options = [item for item in command.params if isinstance(item, click.Option)]
    records = filter(None, (option.get_help_record(context) for option in options))
    rows = [[code(names), _plain(text)] for names, text in records]
    return markdown(["option", "meaning"], rows) if rows else ""


def _plain(text: str) -> str:
    """Return text with all markup escaped but backticks."""
    return re.sub(
        r"(`[^`\n]*`)|([\\*_<>|\[\]&])", lambda hit: hit[1] or f"&#{ord(hit[2])};", text.replace("\n", " ")
    )
