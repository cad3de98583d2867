"""Options, argument types and output helpers shared by the commands."""

import functools
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from cadmus.errors import InputError, near_path, printable, suggest
from cadmus.isa import INSTRUCTIONS, without_spaces
from cadmus.model import DEFAULT_MODEL
from cadmus.tables import plain

if TYPE_CHECKING:
    import numpy as np

CHUNK = 1 << 16
"""Bytes read from standard input at once, as many as a pipe holds."""


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
        # pydantic takes longer to import than all that help and errors need.
        from cadmus.config import find_config

        if not Path(value).suffix and not Path(value).exists():
            value = find_config(str(value))
        return super().convert(value, param, ctx)


class _ModelDirectory(click.Path):
    """A directory with an exported model, or the name of a shipped model."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not Path(value).exists():
            models = DEFAULT_MODEL.parent
            shipped = sorted(path.name for path in models.glob("[!.]*") if path.is_dir())
            if value in shipped:
                value = models / value
            elif Path(value).name == value:
                self.fail(f"no directory or shipped model {value!r}; {suggest(value, shipped)}", param, ctx)
            else:
                self.fail(f"Directory {value!r} does not exist{near_path(value)}", param, ctx)
        return super().convert(value, param, ctx)


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
        (argument,) = (param for param in self.params if isinstance(param, click.Argument))
        raise click.UsageError(
            f"{' '.join(args)}: {argument.human_readable_name} is one argument; quote it", ctx
        )


PATH = click.Path(path_type=Path)
DIRECTORY = click.Path(path_type=Path, file_okay=False)
EXISTING = click.Path(path_type=Path, file_okay=False, exists=True)
CONFIG = _ConfigFile(path_type=Path)
MODEL = _ModelDirectory(path_type=Path, file_okay=False, exists=True)

program_command = functools.partial(
    click.command,
    cls=_ProgramCommand,
    context_settings={"ignore_unknown_options": True, "help_option_names": ["--help"]},
)
"""Decorates a command whose argument is a program."""
config_option = click.option(
    "--config",
    default="quick",
    show_default=True,
    type=CONFIG,
    metavar="FILE",
    help="Config of the run: a file, or the name of a shipped config.",
)
model_option = click.option(
    "--model",
    "directory",
    type=MODEL,
    metavar="DIR",
    help="Exported model: a directory, or the name of a shipped one; laptop by default.",
)
"""Optional; the commands fall back to the shipped model."""
json_option = click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
device_option = click.option(
    "--device", metavar="DEVICE", help="torch device; the GPU if there is one, else cpu."
)


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


def usable_device(device: str | None) -> str:
    """Return the named device or, if None, the GPU if there is one."""
    import torch

    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"--device {device}: not available ({reason}); cpu always is") from None
    return device


def check_results_path(output: Path) -> None:
    """Check before the work starts that results can be written to ``output``."""
    from cadmus.store import check_writable

    if output.suffix != ".parquet":
        raise InputError(
            f"--output {output}: not a .parquet file; choose a name such as {output.stem}.parquet"
        )
    check_writable(output)


def standard_input() -> BinaryIO:
    """Return standard input."""
    if sys.stdin is None:
        raise InputError("standard input: is closed; pipe programs into it, or open it with </dev/null")
    return sys.stdin.buffer


def input_programs(check: Callable[[str], str], most: int) -> Iterator[list[str]]:
    """Yield the lines of standard input, without their spaces, in batches.

    Args:
        check: returns a line if it is valid. The lines before an invalid one are yielded first; the error has
            the line number added.
        most: lines in a batch; it has fewer if no more are there, so that each is answered as it arrives.
    """
    number = 0
    for lines in _batches(standard_input(), most):
        checked: list[str] = []
        try:
            for line in lines:
                checked.append(check(without_spaces(line.decode("utf-8", "replace").rstrip("\r"))))
        except InputError as error:
            if checked:
                yield checked
            raise InputError(f"line {number + len(checked) + 1}: {error}") from None
        yield checked
        number += len(checked)


def _batches(stream: BinaryIO, most: int) -> Iterator[list[bytes]]:
    rest = b""
    # Returns what is there; waits only if nothing is.
    while chunk := stream.read1(CHUNK):  # type: ignore[attr-defined]
        *lines, rest = (rest + chunk).split(b"\n")
        for start in range(0, len(lines), most):
            yield lines[start : start + most]
    if rest:
        yield [rest]


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


def heading(line: str) -> str:
    """Return a table header, bold on a terminal."""
    return click.style(line, bold=True)


def echo_table(rows: Sequence[Sequence[str]], *, numbers: bool = True) -> None:
    """Print a table whose first row is the header; ``numbers`` right-aligns all columns but the first."""
    title, *lines = plain(rows[0], rows[1:], numbers=numbers).splitlines()
    click.echo("\n".join([heading(title), *lines]))


def likeliest(log_probabilities: "np.ndarray", count: int) -> list[tuple[str, float]]:
    """Return the ``count`` most likely instructions, with their probabilities.

    Args:
        log_probabilities: float32, shape (65,).
    """
    import numpy as np

    probabilities = np.exp(log_probabilities)
    tokens = (-probabilities).argsort(kind="stable")[:count].tolist()
    return [(INSTRUCTIONS[token].symbol, float(probabilities[token])) for token in tokens]


def with_probability(symbol: str, probability: float) -> str:
    """Return an instruction and its probability, with a fixed width."""
    from cadmus.evaluate.intervals import percent

    return f"{symbol} {percent(probability):>6}"
