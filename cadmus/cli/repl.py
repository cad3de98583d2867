"""``cadmus repl``: a session that answers lines, and the terminal or pipe that it reads them from."""

import functools
import itertools
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cadmus import isa
from cadmus.cli.machine import verdict
from cadmus.cli.options import (
    heading,
    likeliest,
    model_option,
    print_error,
    seed_option,
    standard_input,
    with_probability,
)
from cadmus.errors import InputError, suggest
from cadmus.vm import reference
from cadmus.vm.reference import show

if TYPE_CHECKING:
    import numpy as np

    from cadmus.model.inference import Cadmus

MARK = ","
"""Begins a command; not an instruction."""
LONGEST = 1_000
"""Instructions of a program; each row executes all before it."""
TOP = 5
"""Instructions shown by ,next."""
STACK_WIDTH = 24
"""Minimum width of the stack column."""
SHOWN = 40
"""Instructions of the program shown in the prompt."""
HISTORY = 1000
"""Lines of history kept for the next session."""
COMMANDS = {
    "next": "the most likely next instructions, and those that would make the program true",
    "complete": "complete the program with the model",
    "trace": "show the whole program again",
    "sample TEMPLATE": "type a true test program of the template, without its end",
    "undo [N]": "remove the last instruction, the last N, or an end",
    "clear": "drop the program",
    "help": "show this help",
    "quit": "leave, as Ctrl-D does",
}
HELP = "Type instructions; `cadmus isa` lists them. A . or an empty line ends the program with its verdict."


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
    # PyTorch is imported while the first line is typed.
    importing = threading.Thread(target=_import_inference, daemon=True)
    if terminal and not no_model:
        importing.start()

    @functools.cache
    def model() -> "Cadmus":
        from cadmus.model.inference import Cadmus

        try:
            return Cadmus.load(directory)
        except InputError as error:
            # Ends the session, as no invalid line does.
            raise click.ClickException(str(error)) from None

    numbers = itertools.count()

    def sample(template: str) -> str:
        from cadmus.config import Dataset
        from cadmus.dataset import sampler

        # One shard of one program per call.
        drawn = sampler.sample(Dataset(), seed, template, "test", next(numbers), 1)
        (program,) = drawn.programs.to_strings()
        return program

    session = Session(None if no_model else model, sample)
    failed = False
    for line in _typed(session) if terminal else _piped():
        try:
            for answer in session.enter(line):
                click.echo(answer)
        except InputError as error:
            print_error(str(error))
            failed = True
        except KeyboardInterrupt:
            if not terminal:
                raise
            click.echo()
        if session.over:
            break
    code = 2 if failed and not terminal else 0
    if importing.is_alive():
        # A normal exit would crash in the import of torch.
        sys.stdout.flush()
        os._exit(code)
    sys.exit(code)


class Session:
    """A program being typed, with the machine's stack and a model's predictions.

    Args:
        model: Returns the model, loading it on the first call; None for a session without a model.
        sample: Returns a true program of a template, without its end.

    Attributes:
        program: The instructions typed so far.
        over: True after ``,quit``.
    """

    def __init__(self, model: "Callable[[], Cadmus] | None", sample: Callable[[str], str]) -> None:
        self.program = ""
        self.over = False
        self._model = model
        self._sample_template = sample
        self._previous = ""
        self._stack_width = STACK_WIDTH

    def enter(self, line: str) -> Iterator[str]:
        """Process a line and yield the lines of the answer; an invalid line leaves the session unchanged."""
        line = line.strip()
        if line.startswith(MARK):
            yield from self._run_command(line)
        elif line or self.program:
            yield from self._append(isa.check_program(isa.without_spaces(line)) or isa.END)

    def candidates(self, line: str) -> list[str]:
        """Return the completions of the last word of a line."""
        first, space, word = line.rpartition(" ")
        names: list[str] = []
        if not space and line.startswith(MARK):
            # A command that needs an argument is followed by a space at once.
            names = [MARK + command.removesuffix("TEMPLATE").split(" [")[0] for command in COMMANDS]
        elif first.strip() == f"{MARK}sample":
            from cadmus.config import TEMPLATES

            names = list(TEMPLATES)
        return [name for name in names if name.startswith(word)]

    def _append(self, instructions: str) -> Iterator[str]:
        if max(map(len, (self.program + instructions).split(isa.END))) > LONGEST:
            raise InputError(
                f"a program has at most {LONGEST:,} instructions here; `cadmus run` takes longer ones"
            )
        while instructions:
            more, end, instructions = instructions.partition(isa.END)
            start = len(self.program)
            self.program += more
            yield from self._rows(start, end)
            if end:
                yield f"{self.program}{end}  {verdict(reference.run(self.program))}"
                self._previous, self.program = self.program, ""

    def _rows(self, start: int, end: str = "") -> Iterator[str]:
        """Yield a row for each instruction of the program from index ``start`` on, and one for its end."""
        instructions = self.program + end
        stacks = reference.stacks(instructions)
        predicted = self._predictions() if self.program else None
        if start == 0:
            self._stack_width = STACK_WIDTH
            yield heading(self._row("instruction", "stack", *(("guess", "truth") if self._model else ())))
        for place in range(start, len(instructions)):
            symbol = instructions[place]
            cells = []
            # The model predicts nothing before the first instruction.
            if predicted is not None and place > 0:
                ranked = likeliest(predicted[place - 1], isa.VOCABULARY_SIZE)
                cells = [with_probability(*ranked[0]), with_probability(symbol, dict(ranked)[symbol])]
            state = _open_definition(instructions[: place + 1]) or " ".join(map(show, stacks[place]))
            yield self._row(symbol, state, *cells)

    def _predictions(self) -> "np.ndarray | None":
        """Return the log-probabilities after each instruction, shape (n, 65); None without a model."""
        return self._model().log_probabilities([self.program])[0] if self._model else None

    def _row(self, symbol: str, state: str, *cells: str) -> str:
        # A wide stack also widens the rows after it.
        self._stack_width = max(self._stack_width, len(state))
        guess = "".join(f"  {cell:<9}" for cell in cells)
        return f"{symbol:<11}  {state:<{self._stack_width}}{guess}".rstrip()

    def _run_command(self, line: str) -> Iterator[str]:
        name, *arguments = line.split()
        signatures = {MARK + command.split()[0]: command for command in COMMANDS}
        if name not in signatures:
            raise InputError(f"no command {name}; {suggest(name, signatures)}")
        signature = signatures[name]
        most = signature.count(" ")
        if not most - signature.count("[") <= len(arguments) <= most:
            raise InputError(f"{line}: write {MARK}{signature}")
        yield from getattr(self, f"_{name.removeprefix(MARK)}")(*arguments)

    def _help(self) -> list[str]:
        return [HELP, *(f"{MARK + command:<17}{does}" for command, does in COMMANDS.items())]

    def _quit(self) -> list[str]:
        self.over = True
        return []

    def _clear(self) -> list[str]:
        self._previous, self.program = self.program or self._previous, ""
        return []

    def _undo(self, count: str = "1") -> Iterator[str]:
        if not re.fullmatch("[1-9][0-9]{0,3}", count):
            raise InputError(f"{MARK}undo {count[:20]}: N must be a whole number from 1 to 9999")
        if not self.program and not self._previous:
            raise InputError("nothing to undo")
        if self.program:
            self.program = self.program[: -int(count)]
        else:
            self.program, self._previous = self._previous, ""
        yield from self._trace()

    def _trace(self) -> Iterator[str]:
        return self._rows(0) if self.program else iter(["the program is empty"])

    def _next(self) -> Iterator[str]:
        symbols = list(isa.BY_SYMBOL)
        predicted = self._predictions() if self.program else None
        if predicted is not None:
            ranked = likeliest(predicted[-1], isa.VOCABULARY_SIZE)
            yield f"most likely {'   '.join(with_probability(*guess) for guess in ranked[:TOP])}"
            symbols = [symbol for symbol, _ in ranked]
        true = (symbol for symbol in symbols if reference.run(self.program + symbol).true)
        yield f"true after  {' '.join(true) or 'no single instruction'}"

    def _complete(self) -> Iterator[str]:
        if self._model is None:
            raise InputError(f"{MARK}complete: this session has no model")
        from cadmus.model.completing import complete

        model = self._model()
        limit = model.max_length
        if not 1 <= len(self.program) <= limit:
            raise InputError(
                f"{MARK}complete: the program has {len(self.program)} instructions, must have 1 to {limit}"
            )
        (completion,) = complete(model, [self.program], limit)
        yield from self._append(completion.written)
        if not completion.ended:
            yield f"cut off after {limit} instructions, the maximum in training"

    def _sample(self, template: str) -> Iterator[str]:
        sampled = self._sample_template(template)
        if self.program:
            yield from self._append(isa.END)
        yield from self._append(sampled)


def _open_definition(program: str) -> str:
    """Return the definition that a program ends inside, as ``defining 0: 41-``; empty if there is none."""
    if isa.END in program or program.rfind("\\") <= program.rfind(";"):
        return ""
    _, bodies = isa.split_definitions(program)
    return f"defining {len(bodies) - 1}: {bodies[-1]}".rstrip()


def _import_inference() -> None:
    # Without its packages, the first prediction says what to install.
    with suppress(ModuleNotFoundError):
        import_module("cadmus.model.inference")


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
        yield
    finally:
        readline.set_history_length(HISTORY)
        with suppress(OSError):
            history.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(history)
