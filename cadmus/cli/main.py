"""The entry point: the list of commands, and errors as one line."""

import sys

import click

from cadmus.cli import (
    ablate,
    bench,
    card,
    complete,
    config,
    dataset,
    experiments,
    explore,
    fuzz,
    kills,
    llm,
    machine,
    plan,
    readme,
    repl,
    serve,
    train,
)
from cadmus.cli.options import colour, complain
from cadmus.errors import InputError
from cadmus.files import REFUSALS

MODULES = (
    machine,
    repl,
    dataset,
    plan,
    train,
    complete,
    explore,
    serve,
    experiments,
    llm,
    card,
    ablate,
    bench,
    fuzz,
    kills,
    config,
    readme,
)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="cadmus")
def cadmus() -> None:
    """Cadmus: true programs, a small model trained on them, and the experiments that this allows.

    Exit codes: 0 done, 2 bad input (one line says what and where), 1 anything else.
    """


for module in MODULES:
    for command in module.COMMANDS:
        cadmus.add_command(command)


def main() -> None:
    """Run the command line; bad input ends with one line on standard error and exit code 2."""
    try:
        sys.exit(cadmus.main(prog_name="cadmus", standalone_mode=False, color=colour()))
    except InputError as error:
        _fail(str(error), 2)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        sys.exit(2)
    except click.NoSuchOption as error:
        hint = f"; did you mean {error.possibilities[0]}?" if error.possibilities else ""
        _fail(f"no such option {error.option_name}{hint}", 2)
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        hint = f" (`{context.command_path} --help` says more)" if context else ""
        _fail(error.format_message().rstrip(".") + hint, error.exit_code)
    except click.Abort:
        _fail("interrupted", 1)
    except OSError as error:
        if error.errno not in REFUSALS:
            raise
        place = error.filename or "standard output, or a temporary file"
        # What is left in the buffer would fail once more when Python ends.
        sys.stdout = None
        _fail(f"cannot write {place}: {error.strerror}", 2)


def _fail(message: str, code: int) -> None:
    complain(message)
    sys.exit(code)
