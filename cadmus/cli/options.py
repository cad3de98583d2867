"""Options, arguments and ways of printing that several commands share."""

import functools
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cadmus.common.files import check_writable
from cadmus.common.progress import progress
from cadmus.errors import InputError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Answer = TypeVar("Answer")


class WholeNumber(click.IntRange):
    """A range of numbers, called by its name in errors."""

    name = "whole number"


class _ConfigFile(click.Path):
    """A file, or the name of a config of the checkout; Tab offers YAML files here and one folder below."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from cadmus.config import find_config

        found = find_config(value) if isinstance(value, str) and not Path(value).exists() else None
        return super().convert(value if found is None else found, param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem]":
        from glob import glob

        from click.shell_completion import CompletionItem

        found = sorted({*glob(f"{incomplete}*.yaml"), *glob(f"{incomplete}*/*.yaml")})
        return [*map(CompletionItem, found)] or super().shell_complete(ctx, param, incomplete)


PATH = click.Path(path_type=Path)
DIRECTORY = click.Path(path_type=Path, file_okay=False)
EXISTING = click.Path(path_type=Path, file_okay=False, exists=True)
"""A directory that is read, such as an export."""
CONFIG = _ConfigFile(path_type=Path)


def one_of(
    names: Callable[[], Iterable[str]],
) -> "Callable[[click.Context, click.Parameter, str], list[str]]":
    """What Tab offers for an argument that is one of ``names``."""

    def matching(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        return [name for name in names() if name.startswith(incomplete)]

    return matching


config_option = click.option(
    "--config",
    default=Path("config/quick.yaml"),
    show_default=True,
    type=CONFIG,
    metavar="FILE",
    help="The config file of the run.",
)

model_option = click.option("--model", "directory", type=EXISTING, metavar="DIR", help="An exported model.")
"""For commands that take the model that comes with the checkout where none is named."""

json_option = click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")


def seed_option(default: int, decides: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The option --seed, which ``decides`` something."""
    return click.option(
        "--seed",
        default=default,
        show_default=True,
        type=WholeNumber(min=0),
        metavar="SEED",
        help=f"Decides {decides}.",
    )


device_option = click.option("--device", help="torch device; a GPU when there is one.", metavar="DEVICE")


def split_names() -> tuple[str, ...]:
    """The splits that a dataset may have."""
    from cadmus.config import OOD, SPLITS

    return *SPLITS, OOD


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


def echo_table(rows: Sequence[Sequence[str]], *, numbers: bool = True) -> None:
    """Print a table whose first row is the header; ``numbers`` right-aligns all columns but the first."""
    from cadmus.common.tables import plain

    title, *lines = plain(rows[0], rows[1:], numbers=numbers).splitlines()
    click.echo("\n".join([heading(title), *lines]))


def heading(line: str) -> str:
    """The first line of a table, bold on a terminal."""
    return click.style(line, bold=True)


def check_results_path(output: Path) -> None:
    """See that numbers can be written there before the work for them is done.

    Raises:
        InputError: it is no Parquet file, or cannot be written.
    """
    if output.suffix != ".parquet":
        raise InputError(
            f"--output {output}: not a .parquet file; choose a name such as {output.stem}.parquet"
        )
    check_writable(output)


class _TakesAnyProgram(click.Command):
    """A command whose argument may begin with ``-``; only a lone ``-h`` is an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = ["--help"] if args == ["-h"] else list(args)
        try:
            return super().parse_args(ctx, given)
        except click.UsageError as error:
            if type(error) is not click.UsageError:
                raise
        # There are several arguments, of which one may be an option that there is not.
        known = {name for param in self.get_params(ctx) for name in param.opts}
        for word in args:
            if word.startswith("--") and word != "--" and word.partition("=")[0] not in known:
                raise click.NoSuchOption(word, possibilities=known, ctx=ctx)
        raise click.UsageError(f"{' '.join(args)}: a program is one argument, in quotes", ctx)


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
    lines: Iterable[bytes] = sys.stdin.buffer
    if sys.stderr.isatty() and not sys.stdout.isatty():
        lines = progress("lines", lines, unit="line")
    for number, line in enumerate(lines, start=1):
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
