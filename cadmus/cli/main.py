"""The entry point: the list of commands, and errors as one line."""

import sys

import click

from cadmus.cli import (
    ablate,
    bench,
    card,
    complete,
    completion,
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
from cadmus.common.files import REFUSALS
from cadmus.errors import InputError

SECTIONS = {
    "The machine": (machine,),
    "Data": (config, dataset),
    "Training": (plan, train, ablate, kills),
    "A trained model": (repl, explore, complete, serve, card),
    "Experiments": (experiments,),
    "Large language models": (llm,),
    "Checks and speed": (fuzz, bench),
    "This checkout and shell": (readme, completion),
}
"""The modules of the commands, in the order of the pipeline, under the headings of ``cadmus --help``."""


class _Sections(click.Group):
    """A group whose help lists its commands under the headings of :data:`SECTIONS`."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, self.commands))
        for title, modules in SECTIONS.items():
            commands = [command for module in modules for command in module.COMMANDS]
            with formatter.section(title):
                limit = formatter.width - formatter.current_indent - width - 2
                formatter.write_dl(
                    [(command.name.ljust(width), command.get_short_help_str(limit)) for command in commands]
                )


def _show_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from importlib.metadata import version
        from platform import python_version

        from cadmus.isa import digest

        click.echo(f"cadmus {version('cadmus')} (instruction set {digest()})")
        click.echo(f"Python {python_version()}, torch {version('torch')}")
        ctx.exit()


@click.group(
    cls=_Sections, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_show_version,
    help="Print the versions of Cadmus, its instruction set, Python and torch.",
)
def cadmus() -> None:
    """Cadmus: true programs, a model trained on them, and experiments.

    `cadmus COMMAND --help` explains a command with examples. Results go to standard output; errors and
    progress to standard error. Colours are shown on a terminal unless NO_COLOR is set.

    \b
    Exit codes:
      0  done, also when a program that was run is false
      1  stopped by Ctrl-C or SIGTERM (a training goes on when it is given again);
         fuzz or kills found a difference; a defect of Cadmus, with a traceback
      2  bad input: one line says what is wrong, where, and what would be right

    \b
    Examples:
      cadmus run '34+7='
      cadmus complete '62*4+54*4-'
      cadmus sample equality -n 3
    """


for modules in SECTIONS.values():
    for module in modules:
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
        _fail(f"no such option {error.option_name}{hint}{_help_of(error, 'lists them')}", 2)
    except click.exceptions.NoSuchCommand as error:
        hint = f"; did you mean {error.possibilities[0]!r}?" if error.possibilities else ""
        _fail(f"no such command {error.command_name!r}{hint}{_help_of(error, 'lists them')}", 2)
    except click.ClickException as error:
        message = " ".join(error.format_message().split())
        _fail(message.rstrip(".") + _help_of(error, "says more"), error.exit_code)
    except click.Abort:
        _fail("interrupted", 1)
    except OSError as error:
        if error.errno not in REFUSALS:
            raise
        place = error.filename or "standard output, or a temporary file"
        # What is left in the buffer would fail once more when Python ends.
        sys.stdout = None
        _fail(f"cannot write {place}: {error.strerror}", 2)


def _help_of(error: click.ClickException, does: str) -> str:
    context = getattr(error, "ctx", None)
    return f" (`{context.command_path} --help` {does})" if context else ""


def _fail(message: str, code: int) -> None:
    complain(message)
    sys.exit(code)
