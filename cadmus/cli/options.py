"""Options, arguments and ways of printing that several commands share."""

import functools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import click

from cadmus.errors import InputError
from cadmus.files import check_writable

Answer = TypeVar("Answer")

config_option = click.option(
    "--config",
    default=Path("config/quick.yaml"),
    show_default=True,
    type=click.Path(path_type=Path),
    help="The config file of the run.",
)

model_option = click.option(
    "--model", "directory", type=click.Path(path_type=Path), metavar="DIR", help="An exported model."
)
"""For commands that take the model that comes with the checkout where none is named."""

device_option = click.option("--device", help="torch device; a GPU when there is one.", metavar="DEVICE")


def template_names() -> list[str]:
    """The templates, found by their files, as :mod:`cadmus.config` takes too long to load for a Tab.

    The file of a template holds a function of its name that draws candidates.
    """
    files = sorted(Path(__file__).parents[1].joinpath("templates").glob("*.py"))
    return [
        file.stem for file in files if f"\ndef {file.stem}(draw: Draw," in file.read_text(encoding="utf-8")
    ]


def colour() -> bool | None:
    """Whether colours are shown: as NO_COLOR or FORCE_COLOR ask, else None: where there is a terminal."""
    if os.environ.get("NO_COLOR"):
        return False
    return True if os.environ.get("FORCE_COLOR") else None


def complain(message: str) -> None:
    """Say on standard error what is wrong."""
    click.echo(f"{click.style('cadmus: error:', fg='red')} {message}", err=True, color=colour())


def echo_table(rows: Sequence[Sequence[str]]) -> None:
    """Print rows in columns, the first aligned on the left and the others on the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *others in rows:
        cells = (cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))
        click.echo("  ".join([first.ljust(widths[0]), *cells]).rstrip())


def check_numbers_path(output: Path) -> None:
    """See that numbers can be written there before the work for them is done.

    Raises:
        InputError: it is no Parquet file, or cannot be written.
    """
    if output.suffix != ".parquet":
        raise InputError(f"--output {output}: a file of numbers is called something.parquet")
    check_writable(output)


class _TakesAnyProgram(click.Command):
    """A command whose argument may begin with ``-``; only a lone ``-h`` is an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, ["--help"] if args == ["-h"] else args)


program_command = functools.partial(
    click.command,
    cls=_TakesAnyProgram,
    context_settings={"ignore_unknown_options": True, "help_option_names": ["--help"]},
)
"""Makes a command whose argument is a program."""


def of_lines(ask: Callable[[str], Answer]) -> Iterator[tuple[str, Answer]]:
    """Each line of the standard input and what ``ask`` makes of it, as soon as the line is there.

    Raises:
        InputError: naming the line, where ``ask`` raises one.
    """
    for number, line in enumerate(sys.stdin.buffer, start=1):
        program = line.decode("utf-8", "replace").rstrip("\r\n")
        try:
            yield program, ask(program)
        except InputError as error:
            raise InputError(f"line {number}: {error}") from None


def usable_device(device: str | None) -> str:
    """The device that is named or, if None, a GPU when there is one.

    Raises:
        InputError: it is not to be had.
    """
    import torch

    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"--device {device}: not to be had here ({reason}); cpu always is") from None
    return device
