"""What ``cadmus repl`` answers to each line; the terminal is :mod:`cadmus.cli.repl`'s."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from cadmus import isa
from cadmus.cli.complete import continued, likeliest, probabilities_of, with_share
from cadmus.cli.machine import coloured_verdict
from cadmus.cli.options import heading, template_names
from cadmus.errors import InputError, suggest
from cadmus.vm import reference
from cadmus.vm.reference import show

if TYPE_CHECKING:
    from cadmus.model.inference import Cadmus

MARK = ","
"""Begins a command; it is none of the 65 instructions."""
GUESSES = 5
"""Instructions that ``,next`` gives as the likeliest."""
STACK_WIDTH = 24
"""Columns for the stack; a wider one widens those of the rows after it."""
COMMANDS = {
    "next": "what the model expects, and what would make the program true if it ended there",
    "complete": "let the model finish the program",
    "trace": "the whole program again",
    "sample TEMPLATE": "a true program of the template, of the test split, typed for you but for its end",
    "undo [N]": "take the last instruction back, or the last N, or an end",
    "clear": "forget the program",
    "help": "these lines",
    "quit": "leave, as Ctrl-D does",
}
HELP = (
    """Type instructions; `cadmus isa` lists them. A . or an empty line ends the program with its verdict."""
)


class Session:
    """One program being typed, and what the machine and a model make of it.

    Args:
        model: gives a model, loading it when it is first called; None for a session without guesses.
        sample: draws a true program of a template, without its end.

    Attributes:
        program: what was typed so far.
        over: whether the session was left.
    """

    def __init__(self, model: "Callable[[], Cadmus] | None", sample: Callable[[str], str]) -> None:
        self.program = ""
        self.over = False
        self._model = model
        self._draw = sample
        self._ended = ""
        self._stack_width = STACK_WIDTH

    def enter(self, line: str) -> Iterator[str]:
        """Take a line and yield the lines that answer it.

        Raises:
            InputError: the line is wrong, and nothing has changed.
        """
        line = line.strip()
        if line.startswith(MARK):
            yield from self._obey(line)
        elif line or self.program:
            yield from self._append(isa.check_program(line) or isa.END)

    def candidates(self, line: str) -> list[str]:
        """What the last word of a line that is being typed may become."""
        first, space, word = line.rpartition(" ")
        if not space and line.startswith(MARK):
            # A command that needs an argument is followed by a space at once.
            names = [MARK + command.removesuffix("TEMPLATE").split(" [")[0] for command in COMMANDS]
        else:
            names = template_names() if first.strip() == f"{MARK}sample" else []
        return [name for name in names if name.startswith(word)]

    def _append(self, instructions: str) -> Iterator[str]:
        while instructions:
            more, end, instructions = instructions.partition(isa.END)
            start = len(self.program)
            self.program += more
            yield from self._rows(start, end)
            if end:
                yield f"{self.program}{end}  {coloured_verdict(reference.run(self.program))}"
                self._ended, self.program = self.program, ""

    def _rows(self, start: int, end: str = "") -> Iterator[str]:
        """A row for each instruction of the program from place ``start`` on, and one for its end."""
        instructions = self.program + end
        shares = probabilities_of(self._model(), self.program) if self._model and self.program else None
        if start == 0:
            self._stack_width = STACK_WIDTH
            yield heading(self._row("instruction", "stack", *(("guess", "truth") if self._model else ())))
        for place in range(start, len(instructions)):
            symbol = instructions[place]
            state = _state(instructions[: place + 1])
            if shares is None or place == 0:
                # A model sees one instruction at least.
                yield self._row(symbol, state)
                continue
            before = shares[place - 1]
            ((guess, share),) = likeliest(before, 1)
            truth = float(before[isa.TOKEN_ID[symbol]])
            yield self._row(symbol, state, with_share(guess, share), with_share(symbol, truth))

    def _row(self, symbol: str, state: str, *cells: str) -> str:
        self._stack_width = max(self._stack_width, len(state))
        guess = "".join(f"  {cell:<9}" for cell in cells)
        return f"{symbol:<11}  {state:<{self._stack_width}}{guess}".rstrip()

    def _obey(self, line: str) -> Iterator[str]:
        name, *arguments = line.removeprefix(MARK).split() or [""]
        signatures = {command.split()[0]: command for command in COMMANDS}
        if name not in signatures:
            commands = [MARK + known for known in signatures]
            raise InputError(f"no command {MARK}{name}; {suggest(MARK + name, commands)}")
        signature = signatures[name]
        fewest, most = signature.count(" ") - signature.count("["), signature.count(" ")
        if not fewest <= len(arguments) <= most:
            raise InputError(f"{line}: write {MARK}{signature}")
        yield from getattr(self, f"_{name}")(*arguments)

    def _help(self) -> list[str]:
        return [HELP, *(f"{MARK + command:<17}{does}" for command, does in COMMANDS.items())]

    def _quit(self) -> list[str]:
        self.over = True
        return []

    def _clear(self) -> list[str]:
        self._ended, self.program = self.program or self._ended, ""
        return []

    def _undo(self, count: str = "1") -> Iterator[str]:
        if not count.isdecimal() or int(count) == 0:
            raise InputError(f"{MARK}undo {count}: how many instructions to take back is a number from 1 on")
        if not self.program and not self._ended:
            raise InputError("there is nothing to take back")
        if self.program:
            self.program = self.program[: -int(count)]
        else:
            self.program, self._ended = self._ended, ""
        yield from self._trace()

    def _trace(self) -> Iterator[str]:
        return self._rows(0) if self.program else iter(["the program is empty"])

    def _next(self) -> Iterator[str]:
        symbols = list(isa.BY_SYMBOL)
        if self._model and self.program:
            now = probabilities_of(self._model(), self.program)[-1]
            order = likeliest(now, isa.VOCABULARY_SIZE)
            yield f"likeliest   {'   '.join(with_share(*guess) for guess in order[:GUESSES])}"
            symbols = [symbol for symbol, _ in order]
        true = (symbol for symbol in symbols if reference.run(self.program + symbol).true)
        yield f"true after  {' '.join(true) or 'no single instruction'}"

    def _complete(self) -> Iterator[str]:
        if self._model is None:
            raise InputError(f"{MARK}complete: there is no model in this session")
        if not self.program:
            raise InputError(f"{MARK}complete: a model goes on from one instruction at least")
        model = self._model()
        most = model.max_length
        if len(self.program) > most:
            raise InputError(f"{MARK}complete: the model was trained with at most {most} instructions")
        completion = continued(model, self.program, most)
        yield from self._append(completion.continuation + completion.end)
        if not completion.ended:
            yield f"cut off after {most} instructions, the most that the model was trained with"

    def _sample(self, template: str) -> Iterator[str]:
        drawn = self._draw(template)
        if self.program:
            yield from self._append(isa.END)
        yield from self._append(drawn)


def _state(program: str) -> str:
    """The stack after a program or, where a definition is open at its end, that definition."""
    _, bodies = isa.split_definitions(program)
    if isa.END not in program and program.rfind("\\") > program.rfind(";"):
        return f"defining {len(bodies) - 1}: {bodies[-1]}".rstrip()
    return " ".join(map(show, reference.run(program).outputs))
