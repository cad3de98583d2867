"""Options and arguments that several commands share."""

import functools
import sys
from collections.abc import Callable, Iterator
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
