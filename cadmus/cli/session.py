"""The state of ``cadmus repl`` and its answers, without the terminal."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from cadmus import isa
from cadmus.cli.complete import complete_all, next_probabilities, top_instructions, with_probability
from cadmus.cli.machine import verdict
from cadmus.cli.options import heading
from cadmus.errors import InputError, suggest
from cadmus.vm import reference
from cadmus.vm.reference import show

if TYPE_CHECKING:
    from cadmus.model.inference import Cadmus

# Begins a command; not an instruction.
MARK = ","
# Instructions of a program; each row executes all before it.
LONGEST = 1_000
# Instructions shown by ,next.
TOP = 5
# Minimum width of the stack column.
STACK_WIDTH = 24
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
        """Process a line and yield the lines of the answer.

        Raises:
            InputError: The line is invalid; the session is unchanged.
        """
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
        predicted = next_probabilities(self._model(), self.program) if self._model and self.program else None
        if start == 0:
            self._stack_width = STACK_WIDTH
            yield heading(self._row("instruction", "stack", *(("guess", "truth") if self._model else ())))
        for place in range(start, len(instructions)):
            symbol = instructions[place]
            cells = []
            # The model predicts nothing before the first instruction.
            if predicted is not None and place > 0:
                before = predicted[place - 1]
                (guess,) = top_instructions(before, 1)
                cells = [
                    with_probability(*guess),
                    with_probability(symbol, float(before[isa.TOKEN_ID[symbol]])),
                ]
            yield self._row(symbol, _state(instructions[: place + 1]), *cells)

    def _row(self, symbol: str, state: str, *cells: str) -> str:
        # A wide stack also widens the rows after it.
        self._stack_width = max(self._stack_width, len(state))
        guess = "".join(f"  {cell:<9}" for cell in cells)
        return f"{symbol:<11}  {state:<{self._stack_width}}{guess}".rstrip()

    def _run_command(self, line: str) -> Iterator[str]:
        name, *arguments = line.removeprefix(MARK).split() or [""]
        signatures = {command.split()[0]: command for command in COMMANDS}
        if name not in signatures:
            commands = [MARK + known for known in signatures]
            raise InputError(f"no command {MARK}{name}; {suggest(MARK + name, commands)}")
        signature = signatures[name]
        most = signature.count(" ")
        if not most - signature.count("[") <= len(arguments) <= most:
            raise InputError(f"{line}: write {MARK}{signature}")
        yield from getattr(self, f"_{name}")(*arguments)

    def _help(self) -> list[str]:
        return [HELP, *(f"{MARK + command:<17}{does}" for command, does in COMMANDS.items())]

    def _quit(self) -> list[str]:
        self.over = True
        return []

    def _clear(self) -> list[str]:
        self._previous, self.program = self.program or self._previous, ""
        return []

    def _undo(self, count: str = "1") -> Iterator[str]:
        if not count.isdecimal() or len(count) > len(str(LONGEST)) or int(count) == 0:
            raise InputError(f"{MARK}undo {count[:20]}: N must be a whole number from 1 to {LONGEST}")
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
        if self._model and self.program:
            now = next_probabilities(self._model(), self.program)[-1]
            ranked = top_instructions(now, isa.VOCABULARY_SIZE)
            yield f"most likely {'   '.join(with_probability(*guess) for guess in ranked[:TOP])}"
            symbols = [symbol for symbol, _ in ranked]
        true = (symbol for symbol in symbols if reference.run(self.program + symbol).true)
        yield f"true after  {' '.join(true) or 'no single instruction'}"

    def _complete(self) -> Iterator[str]:
        if self._model is None:
            raise InputError(f"{MARK}complete: this session has no model")
        if not self.program:
            raise InputError(f"{MARK}complete: the program is empty; type an instruction first")
        model = self._model()
        limit = model.max_length
        if len(self.program) > limit:
            raise InputError(
                f"{MARK}complete: the program has {len(self.program)} instructions; "
                f"the model was trained on at most {limit}"
            )
        (found,) = complete_all(model, [self.program], limit)
        yield from self._append(found.completion + found.end)
        if not found.end:
            yield f"cut off after {limit} instructions, the maximum in training"

    def _sample(self, template: str) -> Iterator[str]:
        sampled = self._sample_template(template)
        if self.program:
            yield from self._append(isa.END)
        yield from self._append(sampled)


def _state(program: str) -> str:
    """Return the stack after a program or, if it ends inside a definition, that definition."""
    _, bodies = isa.split_definitions(program)
    if isa.END not in program and program.rfind("\\") > program.rfind(";"):
        return f"defining {len(bodies) - 1}: {bodies[-1]}".rstrip()
    return " ".join(map(show, reference.run(program).outputs))
