"""The entry point: the list of commands, and one-line errors."""

import errno
import importlib
import sys
from typing import Any

import click

from cadmus.cli.options import color_mode, echo, print_error
from cadmus.common import interrupts
from cadmus.common.files import REFUSALS
from cadmus.distribution import NAME, VERSION, missing_extra
from cadmus.errors import InputError, Interrupted

MODULES = (
    "card",
    "complete",
    "config",
    "dataset",
    "experiments",
    "llm",
    "machine",
    "plan",
    "push",
    "repl",
    "serve",
    "study",
    "train",
)
"""Modules of this package with commands, listed in their ``COMMANDS``."""
# Commands by the headings of `cadmus --help`; those that people rarely type come last.
SECTIONS = {
    "Programs": ("run", "isa", "sample", "states", "repl"),
    "Trained models": ("complete", "explore", "evaluate", "figure", "serve", "push"),
    "Training": ("config", "plan", "train", "study"),
    "Large language models": ("llm",),
    "Single steps of the workflow, rarely typed": ("shard", "manifest", "report", "card"),
}
# Extras with all packages of a command; the other commands need only the base install.
EXTRAS = {
    "card": "model",
    "complete": "model",
    "config": "sample",
    "evaluate": "model",
    "explore": "serve",
    "figure": "figures",
    "llm": "llm",
    "manifest": "sample",
    "plan": "sample",
    "push": "model",
    "repl": "model",
    "report": "figures",
    "sample": "sample",
    "serve": "serve",
    "shard": "sample",
    "states": "sample",
    "study": "figures",
    "train": "train",
}


class _Commands(click.Group):
    """A group that lists its commands by :data:`SECTIONS` and names the extra of a missing package."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            command = ctx.invoked_subcommand
            if command not in EXTRAS:
                raise
            raise missing_extra(error, f"cadmus {command}", EXTRAS[command]) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, self.commands))
        limit = formatter.width - width - 4
        for title, names in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl(
                    [(name.ljust(width), self.commands[name].get_short_help_str(limit)) for name in names]
                )


def _print_versions(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from importlib.metadata import PackageNotFoundError, version
        from platform import python_version

        from cadmus.isa import digest

        try:
            torch = version("torch")
        except PackageNotFoundError:
            torch = "not installed"
        click.echo(f"{NAME} {VERSION} (instruction set {digest()})")
        click.echo(f"Python {python_version()}, torch {torch}")
        ctx.exit()


@click.group(
    cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_versions,
    help="Print the versions of Cadmus, its instruction set, Python and torch.",
)
def cadmus() -> None:
    """Cadmus: true programs, a model trained on them, and experiments.

    `cadmus COMMAND --help` explains a command with examples. Results go to standard output, errors and
    progress to standard error. The environment variable NO_COLOR turns colors off.

    \b
    Tab completion in bash, a line for ~/.bashrc (zsh: zsh_source, ~/.zshrc):
      eval "$(_CADMUS_COMPLETE=bash_source cadmus)"

    \b
    Exit codes:
      0  success, also if the program that was run is false
      1  interrupted by Ctrl-C or SIGTERM, with one line and no temporary file left
         (run train or llm submit again to resume; serve and explore exit with 0);
         complete --verified found no program;
         a bug in Cadmus, with a traceback
      2  bad input; one line names the problem and the fix

    \b
    Examples:
      cadmus run '34+7='
      cadmus complete '62*4+54*4-'
      cadmus sample equality -n 3
    """


for module in MODULES:
    for command in importlib.import_module(f"cadmus.cli.{module}").COMMANDS:
        cadmus.add_command(command)


def main() -> None:
    """Run the command line.

    Bad input prints one line on standard error and exits with code 2; SIGINT and SIGTERM, with code 1.
    """
    with interrupts.restored():
        # Already done by cadmus.__main__, before the imports.
        interrupts.install()
        _run()


def _run() -> None:
    for argument in sys.argv[1:]:
        # Bytes that are not UTF-8; most libraries take no such path.
        if not argument.isascii() and argument != argument.encode(errors="replace").decode():
            _exit(f"argument {argument!a}: not UTF-8", 2)
    try:
        sys.exit(cadmus.main(prog_name="cadmus", standalone_mode=False, color=color_mode()))
    except InputError as error:
        _exit(str(error), 2)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        sys.exit(2)
    except click.NoSuchOption as error:
        hint = f"; did you mean {error.possibilities[0]}?" if error.possibilities else ""
        _exit(f"no such option {error.option_name}{hint}{_see_help(error, 'lists them')}", 2)
    except click.exceptions.NoSuchCommand as error:
        hint = f"; did you mean {error.possibilities[0]!r}?" if error.possibilities else ""
        _exit(f"no such command {error.command_name!r}{hint}{_see_help(error, 'lists them')}", 2)
    except click.ClickException as error:
        message = " ".join(error.format_message().split())
        _exit(message.rstrip(".") + _see_help(error, "says more"), error.exit_code)
    except click.Abort:
        _interrupted("interrupted")
    except Interrupted as interruption:
        _interrupted(str(interruption))
    except UnicodeEncodeError as error:
        char = error.object[error.start]
        _exit(f"standard output: encoding {error.encoding} has no {char!a}; set PYTHONIOENCODING=utf-8", 2)
    except MemoryError as error:
        _exit(f"out of memory{f' ({error})' if str(error) else ''}; ask for less at a time", 2)
    except OSError as error:
        # Of a path on the command line or in a file; its other problems are found where it is opened.
        if error.errno == errno.ENAMETOOLONG:
            _exit(str(InputError(f"{error.filename}: {error.strerror}")), 2)
        if error.errno not in REFUSALS:
            raise
        place = error.filename or "standard output, or a temporary file"
        # Flushing the buffer at exit would fail again.
        sys.stdout = None
        _exit(f"cannot write {place}: {error.strerror}", 2)


def _see_help(error: click.ClickException, does: str) -> str:
    context = getattr(error, "ctx", None)
    return f" (`{context.command_path} --help` {does})" if context else ""


def _interrupted(message: str) -> None:
    echo(f"cadmus: {message}", err=True)
    sys.exit(1)


def _exit(message: str, code: int) -> None:
    print_error(message)
    sys.exit(code)
