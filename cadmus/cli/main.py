"""The entry point: the list of commands, and errors as one line."""

import sys

import click

from cadmus.cli import machine, train
from cadmus.errors import InputError


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="cadmus")
def cadmus() -> None:
    """Cadmus: true programs, a small model trained on them, and the experiments that this allows.

    Exit codes: 0 done, 2 bad input (one line says what and where), 1 anything else.
    """


for command in (*machine.COMMANDS, *train.COMMANDS):
    cadmus.add_command(command)


def main() -> None:
    """Run the command line; bad input ends with one line on standard error and exit code 2."""
    try:
        cadmus()
    except InputError as error:
        sys.exit(_fail(str(error)))
    except BrokenPipeError:
        # The reader of our output (head, say) has seen enough.
        sys.stderr.close()
        sys.exit(0)


def _fail(message: str) -> int:
    click.echo(f"cadmus: error: {message}", err=True)
    return 2


if __name__ == "__main__":
    main()
