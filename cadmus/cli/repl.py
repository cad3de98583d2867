"""``cadmus repl``: a :class:`cadmus.cli.session.Session` in the terminal or a pipe."""

import itertools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cadmus.cli.options import model_option, print_error, seed_option, standard_input
from cadmus.cli.session import HELP, MARK, Session
from cadmus.common import interrupts
from cadmus.errors import InputError
from cadmus.model.shipped import named_or_default

if TYPE_CHECKING:
    from cadmus.model.inference import Cadmus

# Instructions of the program shown in the prompt.
SHOWN = 40
# Lines of history kept for the next session.
HISTORY = 1000


@click.command()
@model_option
@click.option("--no-model", is_flag=True, help="Only run programs, without predictions.")
@seed_option(1, "what ,sample draws")
def repl(directory: Path | None, no_model: bool, seed: int) -> None:
    """Type a program and see the stack and a model's predictions.

    Each instruction gives a row with the instruction, the stack after it (or the definition it belongs to),
    the model's guess before it saw the instruction, and the probability of the instruction itself. The end .
    or an empty line prints the verdict and starts a new program.

    Lines that begin with a comma are commands; Tab completes them and ,help lists them. Lines from a pipe
    are read without a prompt; an invalid one makes the exit code 2.

    \b
    Examples:
      cadmus repl
      cadmus repl --model results/quick/model
      printf '34+\\n,next\\n7=\\n\\n' | cadmus repl
    """
    terminal = standard_input().isatty()
    model = None if no_model else _Model(directory, preload=terminal)
    numbers = itertools.count()

    def sample(template: str) -> str:
        from cadmus.config import Dataset
        from cadmus.dataset import sampler

        # One shard of one program per call.
        drawn = sampler.sample(Dataset(), seed, template, "test", next(numbers), 1)
        (program,) = drawn.programs.to_strings()
        return program

    session = Session(model, sample)
    failed = False
    with interrupts.keyboard() if terminal else nullcontext():
        for line in _typed(session) if terminal else _piped():
            try:
                for answer in session.enter(line):
                    click.echo(answer)
            except InputError as error:
                if model and error is model.error:
                    raise
                print_error(str(error))
                failed = True
            except KeyboardInterrupt:
                click.echo()
            if session.over:
                break
    code = 2 if failed and not terminal else 0
    if model and model.loading():
        # A normal exit would wait for the import of torch, or crash in it.
        sys.stdout.flush()
        os._exit(code)
    sys.exit(code)


class _Model:
    """A model loaded on the first call or, with ``preload``, while the first line is typed."""

    def __init__(self, directory: Path | None, preload: bool) -> None:
        try:
            self._directory = named_or_default(directory)
        except InputError as error:
            raise InputError(f"{error}; or use --no-model") from None
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._load, daemon=True)
        if preload:
            self._thread.start()

    def __call__(self) -> "Cadmus":
        if not self._thread.ident:
            self._thread.start()
        self._thread.join()
        if self.error:
            raise self.error
        return self._loaded

    def loading(self) -> bool:
        return self._thread.is_alive()

    def _load(self) -> None:
        try:
            from cadmus.model.inference import Cadmus

            self._loaded = Cadmus.load(self._directory)
        except Exception as error:
            self.error = error


def _piped() -> Iterator[str]:
    for line in standard_input():
        yield line.decode("utf-8", "replace")
    # Ends an unfinished program.
    yield ""


def _typed(session: Session) -> Iterator[str]:
    click.echo(f"{HELP}\n{MARK}help lists the commands, Ctrl-D leaves.")
    with _line_editing(session):
        while True:
            try:
                yield input(f"{session.program[-SHOWN:]}> ")
            except KeyboardInterrupt:
                click.echo()
            except EOFError:
                click.echo()
                break
    yield ""


@contextmanager
def _line_editing(session: Session) -> Iterator[None]:
    """Line editing, Tab completion and history, if readline is available."""
    try:
        import readline
    except ImportError:
        yield
        return

    def complete(text: str, number: int) -> str | None:
        found = session.candidates(readline.get_line_buffer()[: readline.get_endidx()])
        return found[number] if number < len(found) else None

    readline.set_completer(complete)
    readline.set_completer_delims(" ")
    readline.parse_and_bind(
        "bind ^I rl_complete" if "libedit" in (readline.__doc__ or "") else "tab: complete"
    )
    history = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "cadmus/history"
    with suppress(OSError):
        readline.read_history_file(history)
    try:
        with interrupts.on_interrupt(_restored_terminal()):
            yield
    finally:
        readline.set_history_length(HISTORY)
        with suppress(OSError):
            history.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(history)


def _restored_terminal() -> Callable[[], None]:
    """Return a function that undoes what readline does to the terminal while it reads a line."""
    import termios

    try:
        terminal, modes = sys.stdin.fileno(), termios.tcgetattr(sys.stdin)
    except (OSError, ValueError, termios.error):
        return lambda: None
    return lambda: termios.tcsetattr(terminal, termios.TCSADRAIN, modes)


COMMANDS = (repl,)
