"""The entry point: the table of commands, and one-line errors."""

import os
import re
import signal
import sys
from importlib import import_module
from typing import Any, NoReturn

import click

from cadmus import isa
from cadmus.cli.options import echo, print_error
from cadmus.distribution import NAME, VERSION, missing_extra
from cadmus.errors import InputError, Interrupted

SECTIONS = {
    "Programs": {
        "run": ("programs", "", "Execute PROGRAM and print its outputs and whether it is true."),
        "isa": ("programs", "", "Print the table of the 65 instructions."),
        "sample": ("programs", "sample", "Print true programs of TEMPLATE, one per line."),
    },
    "Trained models": {
        "complete": ("complete", "model", "Complete PREFIX with a model and run the whole program."),
        "explore": ("explore", "model", "Open an interactive explorer of a model."),
        "evaluate": ("experiments", "model", "Run an experiment on a trained model."),
        "compare": ("experiments", "model", "Compare two models on the programs that both have completed."),
        "score": ("experiments", "model", "Score features of states by the VM."),
        "figure": ("experiments", "figures", "Draw figures or tables from results alone."),
    },
    "Training": {
        "config": ("configs", "sample", "Show a config with its defaults."),
        "plan": ("plan", "sample", "Estimate compute, time and cost of a run before it starts."),
        "train": ("train", "train", "Train a model on a dataset and export it."),
        "study": ("configs", "figures", "Compare runs that differ in some fields of a config."),
    },
    "Single steps of the workflow, rarely typed": {
        "shard": ("train", "sample", "Sample shards of the dataset in DIRECTORY."),
        "manifest": ("train", "sample", "Check the shards in DIRECTORY and write its manifest.json."),
        "baselines": ("experiments", "model", "Grade the baselines on a dataset."),
        "card": ("train", "model", "Write the card of the model in DIRECTORY."),
    },
}
"""Commands by the headings of `cadmus --help`: the module in this package, the extra with its packages, and
the first sentence of its help."""
THREADS = (
    "NUMBA_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "POLARS_MAX_THREADS",
)
"""Variables of libraries."""
COMMANDS = {name: entry for section in SECTIONS.values() for name, entry in section.items()}


class _Commands(click.Group):
    """The group of :data:`COMMANDS`; ``commands`` only has their names."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        # Click sets it once the command is imported.
        ctx.invoked_subcommand = cmd_name
        module, _, _ = COMMANDS[cmd_name]
        values = vars(import_module(f"cadmus.cli.{module}")).values()
        commands = (value for value in values if isinstance(value, click.Command))
        return next(command for command in commands if command.name == cmd_name)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            _, extra, _ = COMMANDS.get(ctx.invoked_subcommand or "", ("", "", ""))
            if not extra:
                raise
            raise missing_extra(error, f"cadmus {ctx.invoked_subcommand}", extra) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for title, section in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), text) for name, (_, _, text) in section.items()])


@click.group(
    cls=_Commands,
    commands={name: click.Command(name) for name in COMMANDS},
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100, "show_default": True},
)
@click.version_option(
    VERSION,
    prog_name=NAME,
    message=f"%(prog)s %(version)s (instruction set {isa.digest()})",
    help="Print the versions of Cadmus and its instruction set.",
)
def cadmus() -> None:
    """Cadmus: true programs, a model trained on them, and experiments.

    `cadmus COMMAND --help` explains a command with examples. Results go to standard output, errors and
    progress to standard error. Colors are for terminals.

    \b
    Exit codes:
      0    success, also if the program that was run is false
      1    interrupted by Ctrl-C (run train again to resume; explore exits with 0);
           a bug in Cadmus, with a traceback
      2    bad input; one line names the problem and the fix
      129, 143  ended by SIGHUP or SIGTERM

    \b
    Examples:
      cadmus run '34+7='
      cadmus complete '62*4+54*4-'
      cadmus sample equality -n 3
    """


def check_variables() -> None:
    """Check variables from which libraries read numbers of threads; they would fail with a traceback."""
    # Cadmus draws into files alone.
    os.environ.pop("MPLBACKEND", None)
    for name in THREADS:
        text = os.environ.get(name)
        if text is not None and not re.fullmatch(r"0*[1-9][0-9]{0,5}(,[0-9]{1,6})*", text.strip()):
            rule = "must be a whole number of at least 1"
            raise InputError(f"{name}: {rule}, got {text[:40]!r}; change the variable, or unset it")


def main() -> None:
    """Run the command line; bad input prints one line on standard error and exits with code 2."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        # Under nohup, a closed terminal ends nothing.
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda got, _: sys.exit(128 + got))
    try:
        check_variables()
        sys.exit(cadmus.main(prog_name="cadmus", standalone_mode=False))
    except (click.Abort, Interrupted) as error:
        echo(f"cadmus: {str(error) or 'interrupted'}", err=True)
        sys.exit(1)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(2)
    except click.UsageError as error:
        hint = f" (`{error.ctx.command_path} --help` says more)" if error.ctx else ""
        _exit(" ".join(error.format_message().split()) + hint)
    # Before the errors of libraries: an input error may be one of them as well.
    except (InputError, UnicodeError, click.ClickException) as error:
        _exit(str(error))
    except OSError as error:
        # At exit, flushing standard output would fail again.
        sys.stdout = None
        _exit(f"{error.filename or 'standard output'}: {error.strerror or error}")
    except (MemoryError, ImportError, RuntimeError) as error:
        # Libraries have no class for these.
        reasons = ("failed to map", "cannot allocate", "can't allocate", "can't start new thread")
        if not isinstance(error, MemoryError) and not any(reason in str(error) for reason in reasons):
            raise
        _exit("out of memory or threads; ask for less at a time, or allow more (ulimit -a shows the limits)")


def _exit(message: str) -> NoReturn:
    print_error(str(InputError(message)))
    sys.exit(2)
