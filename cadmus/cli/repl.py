"""``cadmus repl``: the terminal of a :class:`cadmus.cli.session.Session`."""

import itertools
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cadmus.cli.options import complain, model_option, seed_option
from cadmus.cli.session import HELP, MARK, Session
from cadmus.errors import InputError
from cadmus.model.shipped import named_or_default

if TYPE_CHECKING:
    from cadmus.model.inference import Cadmus

SHOWN = 40
"""Instructions of the program that the prompt shows, the last ones."""
HISTORY = 1000
"""Lines that are kept for the next session."""


@click.command()
@model_option
@click.option("--no-model", is_flag=True, help="Show what the machine does alone, without guesses.")
@seed_option(1, "what ,sample draws")
def repl(directory: Path | None, no_model: bool, seed: int) -> None:
    """Type a program and see the stack and what a model expected.

    For each instruction there is a row: the instruction; the stack after it, or the definition that it
    belongs to; the guess of the model before it saw the instruction; and the instruction again with the
    probability that the model gave to it. The end . or an empty line gives the verdict and begins a new
    program.

    Lines that begin with a comma are commands, which Tab completes; ,help lists them. Lines can come through
    a pipe as well; then there is no prompt, and the exit code is 2 if one of them was wrong.

    Without --model it is the model that comes with the checkout, in models/laptop.

    \b
    Examples:
      cadmus repl
      cadmus repl --model results/quick/model
      printf '34+\\n,next\\n7=\\n\\n' | cadmus repl
    """
    terminal = sys.stdin.isatty()
    model = None if no_model else _Model(_directory(directory), ahead=terminal)
    numbers = itertools.count()

    def sample(template: str) -> str:
        from cadmus.config import Dataset
        from cadmus.dataset import sampler

        # As many shards as are asked for, of one program each.
        drawn = sampler.sample(Dataset(), seed, template, "test", next(numbers), 1)
        (program,) = drawn.programs.to_strings()
        return program

    session = Session(model, sample)
    refused = False
    for line in _typed(session) if terminal else _piped():
        try:
            for answer in session.enter(line):
                click.echo(answer)
        except InputError as error:
            if model and error is model.error:
                raise
            complain(str(error))
            refused = True
        except KeyboardInterrupt:
            click.echo()
        if session.over:
            break
    code = 2 if refused and not terminal else 0
    if model and model.loading():
        # Python would wait for torch, or fail where torch does not expect it.
        sys.stdout.flush()
        os._exit(code)
    sys.exit(code)


def _directory(directory: Path | None) -> Path:
    try:
        return named_or_default(directory)
    except InputError as error:
        raise InputError(f"{error}; --no-model does without") from None


class _Model:
    """A model that is loaded when it is first asked for or, ``ahead``, while the first line is typed."""

    def __init__(self, directory: Path, ahead: bool) -> None:
        self.error: Exception | None = None
        self._directory = directory
        self._thread = threading.Thread(target=self._load, daemon=True)
        if ahead:
            self._thread.start()

    def __call__(self) -> "Cadmus":
        """Raises:
        InputError: it cannot be loaded.
        """
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
    for line in sys.stdin.buffer:
        yield line.decode("utf-8", "replace")
    # What was not ended gets its verdict.
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
    """Arrow keys, Tab and the lines of earlier sessions, where there is readline."""
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
        yield
    finally:
        readline.set_history_length(HISTORY)
        with suppress(OSError):
            history.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(history)


COMMANDS = (repl,)
