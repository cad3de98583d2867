"""Options, argument types and output helpers shared by the commands."""

import functools
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cadmus.errors import InputError, printable
from cadmus.model import find_model
from cadmus.tables import plain

if TYPE_CHECKING:
    from cadmus.config import Config


class _ConfigFile(click.Path):
    """A config file, or the name of a shipped config."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        # pydantic takes longer to import than all that help and errors need.
        from cadmus.config import find_config

        return super().convert(find_config(value), param, ctx)


class _ModelDirectory(click.Path):
    """A directory with an exported model, or the name of a shipped model."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            path = find_model(value)
        except InputError as error:
            self.fail(str(error), param, ctx)
        return super().convert(path, param, ctx)


PATH = click.Path(path_type=Path)
# Help shows the names of types.
PATH.name = "file"
DIRECTORY = click.Path(path_type=Path, file_okay=False)
CONFIG = _ConfigFile(path_type=Path)
CONFIG.name = "file"
MODEL = _ModelDirectory(path_type=Path, file_okay=False, exists=True)

Decorator = Callable[[Callable[..., None]], Callable[..., None]]
config_option = click.option(
    "--config", default="quick", type=CONFIG, help="Config of the run: a file, or the name of a shipped one."
)


def _changes(context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> dict[str, Any]:
    # Most commands have none, and reading YAML takes time to import.
    if not texts:
        return {}
    from cadmus.config.loading import read_changes

    return read_changes(texts)


changes_option = click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="FIELD=VALUE",
    callback=_changes,
    help="Change a field of the config, such as train.steps=100; repeatable.",
)


def _results(context: click.Context, option: click.Parameter, output: Path) -> Path:
    """Check before the work starts that results can be written to ``output``."""
    from cadmus.store import check_writable

    if output.suffix != ".parquet":
        fix = f"choose a name such as {output.stem}.parquet"
        raise InputError(f"--output {output}: not a .parquet file; {fix}")
    check_writable(output)
    return output


results_option = click.option(
    "--output", type=PATH, required=True, callback=_results, help="Parquet file of the results."
)
model_option = click.option(
    "--model", "directory", type=MODEL, help="Exported model, a directory or a name; laptop by default."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
device_option = click.option("--device", metavar="DEVICE", help="torch device; a GPU if there is one.")


def integer_option(*names: str, low: int = 1, high: int | None = None, **settings: Any) -> Decorator:
    """Return an option for an integer from ``low``, to ``high`` if there is one."""
    return click.option(*names, type=click.IntRange(low, high), metavar="N", **settings)


def optional_config(config: Path | None, changes: dict[str, Any]) -> "Config | None":
    """Return the config of a command that needs none."""
    from cadmus.config import load_config

    if config is None and changes:
        raise InputError(f"--set {next(iter(changes))}: changes a config; add --config")
    return load_config(config, changes) if config else None


def with_options(*options: Decorator) -> Decorator:
    """Return a decorator that adds options to a command, the first on top."""
    return lambda command: functools.reduce(lambda inner, option: option(inner), reversed(options), command)


def usable_device(device: str | None) -> str:
    """Return the named device or, if None, the GPU if there is one."""
    import torch

    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        # Read back, as the device meta makes tensors without values; mkldnn warns before it fails.
        with warnings.catch_warnings(action="ignore"):
            torch.zeros(1, device=device).tolist()
    except (RuntimeError, AssertionError, ModuleNotFoundError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"--device {device}: not available ({reason}); cpu always is") from None
    return device


def print_error(message: str) -> None:
    """Print an error on standard error."""
    start = click.style("cadmus: error:", fg="red")
    click.echo(f"{start} {printable(message)}", err=True)


def echo(message: object, *, err: bool = False) -> None:
    """Print lines that contain text of files or servers: control characters are escaped."""
    click.echo("\n".join(map(printable, str(message).split("\n"))), err=err)


def echo_table(rows: Sequence[Sequence[str]], *, numbers: bool = True) -> None:
    """Print a table whose first row is the header; ``numbers`` right-aligns all columns but the first."""
    title, *lines = plain(rows[0], rows[1:], numbers=numbers).splitlines()
    click.echo("\n".join([click.style(title, bold=True), *lines]))
