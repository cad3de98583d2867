"""Options, argument types and output helpers shared by the commands."""

import functools
import gc
import math
import os
import select
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TextIO, TypeVar

import click

from cadmus.errors import InputError, near_path, printable, suggest
from cadmus.isa import without_spaces
from cadmus.model import shipped
from cadmus.store import check_writable
from cadmus.tools import progress

Answer = TypeVar("Answer")


PAUSE = 0.1
"""Seconds without a further line of standard input after which the lines so far are answered."""
CHUNK = 1 << 16


class WholeNumber(click.IntRange):
    """An integer range; errors call it a whole number."""

    name = "whole number"


class PositiveNumber(click.FloatRange):
    """A finite number above 0."""

    name = "number"

    def __init__(self) -> None:
        super().__init__(min=0, min_open=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not finite.", param, ctx)
        return number


class _ConfigFile(click.Path):
    """A config file, or the name of a shipped config."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from cadmus.config import find_config

        found = find_config(value) if isinstance(value, str) and not Path(value).exists() else None
        return super().convert(value if found is None else found, param, ctx)


class _ModelDirectory(click.Path):
    """A directory with an exported model, or the name of a shipped model."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        models = shipped.DEFAULT_MODEL.parent
        if isinstance(value, str) and not Path(value).exists():
            names = sorted(path.name for path in models.glob("[!.]*") if path.is_dir())
            if value in names:
                value = models / value
            elif names and Path(value).name == value:
                problem = f"Directory {value!r} does not exist and no shipped model has this name"
                self.fail(f"{problem}; {suggest(value, names)}", param, ctx)
            elif hint := near_path(value):
                self.fail(f"Directory {value!r} does not exist{hint}", param, ctx)
        return super().convert(value, param, ctx)


PATH = click.Path(path_type=Path)
DIRECTORY = click.Path(path_type=Path, file_okay=False)
EXISTING = click.Path(path_type=Path, file_okay=False, exists=True)
CONFIG = _ConfigFile(path_type=Path)
MODEL = _ModelDirectory(path_type=Path, file_okay=False, exists=True)

config_option = click.option(
    "--config",
    default="quick",
    show_default=True,
    type=CONFIG,
    metavar="FILE",
    help="Config of the run: a file, or the name of a shipped config.",
)

# Optional; the commands fall back to the shipped model.
model_option = click.option(
    "--model",
    "directory",
    type=MODEL,
    metavar="DIR",
    help="Exported model: a directory, or the name of a shipped one; laptop by default.",
)

json_option = click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")


def seed_option(default: int, decides: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the option --seed; its help says what the seed ``decides``."""
    return click.option(
        "--seed",
        default=default,
        show_default=True,
        type=WholeNumber(min=0),
        metavar="SEED",
        help=f"Random seed; decides {decides}.",
    )


device_option = click.option(
    "--device", metavar="DEVICE", help="torch device; the GPU if there is one, else cpu."
)


def color_mode() -> bool | None:
    """Return whether to print colors: set by NO_COLOR or FORCE_COLOR, else None for terminals only."""
    if os.environ.get("NO_COLOR"):
        return False
    return True if os.environ.get("FORCE_COLOR") else None


def print_error(message: str) -> None:
    """Print an error on standard error."""
    start = click.style("cadmus: error:", fg="red")
    click.echo(f"{start} {printable(message)}", err=True, color=color_mode())


def echo(message: object, *, err: bool = False) -> None:
    """Print lines that contain text of files or servers: control characters are escaped."""
    click.echo("\n".join(map(printable, str(message).split("\n"))), err=err)


def standard_input() -> BinaryIO:
    """Return standard input.

    Raises:
        InputError: it is closed.
    """
    # Python's type does not tell: a closed descriptor makes it None.
    stdin: TextIO | None = sys.stdin
    if stdin is None:
        raise InputError("standard input: is closed; pipe programs into it, or open it with </dev/null")
    return stdin.buffer


def echo_table(rows: Sequence[Sequence[str]], *, numbers: bool = True) -> None:
    """Print a table whose first row is the header; ``numbers`` right-aligns all columns but the first."""
    from cadmus.tables import plain

    title, *lines = plain(rows[0], rows[1:], numbers=numbers).splitlines()
    click.echo("\n".join([heading(title), *lines]))


def heading(line: str) -> str:
    """Return a table header, bold on a terminal."""
    return click.style(line, bold=True)


def check_results_path(output: Path) -> None:
    """Check before the work starts that results can be written to ``output``.

    Raises:
        InputError: It is not a Parquet file or cannot be written.
    """
    if output.suffix != ".parquet":
        raise InputError(
            f"--output {output}: not a .parquet file; choose a name such as {output.stem}.parquet"
        )
    check_writable(output)


class _ProgramCommand(click.Command):
    """A command whose argument may begin with ``-``; only a lone ``-h`` is an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = ["--help"] if args == ["-h"] else list(args)
        _, more, _ = self.make_parser(ctx).parse_args(list(given))
        if not more or ctx.resilient_parsing:
            return super().parse_args(ctx, given)
        # There is more than one argument; one of them may be a mistyped option.
        known = {name for param in self.get_params(ctx) for name in param.opts}
        for word in args:
            if word.startswith("--") and word != "--" and word.partition("=")[0] not in known:
                raise click.NoSuchOption(word, possibilities=known, ctx=ctx)
        (argument,) = (param for param in self.get_params(ctx) if isinstance(param, click.Argument))
        name = argument.make_metavar(ctx).strip("[]")
        raise click.UsageError(f"{' '.join(args)}: {name} is one argument; quote it", ctx)


# Decorates a command whose argument is a program.
program_command = functools.partial(
    click.command,
    cls=_ProgramCommand,
    context_settings={"ignore_unknown_options": True, "help_option_names": ["--help"]},
)


def map_lines(ask: Callable[[str], Answer]) -> Iterator[tuple[str, Answer]]:
    """Yield each line of standard input, without its spaces, with ``ask(line)``, as soon as the line arrives.

    Raises:
        InputError: From ``ask``, with the line number added.
    """
    lines: Iterable[bytes] = standard_input()
    if sys.stderr.isatty() and not sys.stdout.isatty():
        # The base install has no tqdm.
        with suppress(ModuleNotFoundError):
            lines = progress("lines", lines, unit="line")
    for number, line in enumerate(lines, start=1):
        program = _program(line)
        try:
            yield program, ask(program)
        except InputError as error:
            raise InputError(f"line {number}: {error}") from None


def map_batches(
    check: Callable[[str], str], ask: Callable[[list[str], int], Iterable[Answer]], most: int
) -> Iterator[Answer]:
    """Yield the answers to the lines of standard input, without their spaces, asked in batches.

    Args:
        check: Returns a line if it can be asked.
        ask: Answers checked lines; it is also given the number of lines before them.
        most: Lines in a batch; it has fewer if no further line arrives for a moment.

    Raises:
        InputError: From ``check``, with the line number added, after the answers to the lines before.
    """
    number = 0
    with progress("lines", unit="line") as bar:
        bar.disable = bar.disable or sys.stdout.isatty()
        for lines in _batches(standard_input(), most):
            checked, refusal = [], None
            for line in lines:
                try:
                    checked.append(check(_program(line)))
                except InputError as error:
                    refusal = InputError(f"line {number + len(checked) + 1}: {error}")
                    break
            yield from ask(checked, number)
            if refusal:
                raise refusal
            number += len(checked)
            bar.update(len(checked))


def _program(line: bytes) -> str:
    return without_spaces(line.decode("utf-8", "replace").rstrip("\r\n"))


def _batches(stream: BinaryIO, most: int) -> Iterator[list[bytes]]:
    """Yield the lines of a stream: ``most`` at a time, or those that came before a pause."""
    lines: list[bytes] = []
    unfinished = bytearray()
    # Returns what is there; waits only if nothing is.
    while chunk := stream.read1(CHUNK):  # type: ignore[attr-defined]
        end, *starts = chunk.split(b"\n")
        unfinished += end
        for start in starts:
            lines.append(bytes(unfinished))
            unfinished = bytearray(start)
        while len(lines) >= most or (lines and not _more_soon(stream)):
            yield lines[:most]
            lines = lines[most:]
    if unfinished:
        lines.append(bytes(unfinished))
    for start in range(0, len(lines), most):
        yield lines[start : start + most]


def _more_soon(stream: BinaryIO) -> bool:
    try:
        descriptor = stream.fileno()
    except OSError:
        return True
    return bool(select.select([descriptor], [], [], PAUSE)[0])


@contextmanager
def collecting_no_garbage() -> Iterator[None]:
    """Keep all objects that the block makes: looking through those of an import of torch takes 0.3 s."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if enabled:
            gc.enable()


def usable_device(device: str | None) -> str:
    """Return the named device or, if None, the GPU if there is one.

    Raises:
        InputError: The device is not available.
    """
    import torch

    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"--device {device}: not available ({reason}); cpu always is") from None
    return device
