"""``cadmus complete``."""

import json
import reprlib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from cadmus import isa
from cadmus.cli.machine import as_object, coloured_verdict
from cadmus.cli.options import WholeNumber, heading, json_option, model_option, of_lines, program_command
from cadmus.errors import InputError
from cadmus.vm import reference
from cadmus.vm.reference import Result, show

if TYPE_CHECKING:
    import numpy as np

    from cadmus.model.inference import Cadmus


class Completion(NamedTuple):
    """A prefix and how the model goes on.

    Attributes:
        prefix: what was asked.
        continuation: what the model wrote, without the end.
        ended: whether the end came; otherwise the program was cut off.
        result: what the machine makes of the whole.
        probabilities: of every instruction at each step, float32 of shape (steps, 65).
    """

    prefix: str
    continuation: str
    ended: bool
    result: Result
    probabilities: "np.ndarray"

    @property
    def program(self) -> str:
        """The whole, without its end."""
        return self.prefix + self.continuation

    @property
    def end(self) -> str:
        """The end, if it came."""
        return isa.END if self.ended else ""


@program_command()
@click.argument("prefix")
@model_option
@click.option(
    "--max-length",
    type=WholeNumber(1),
    metavar="N",
    help="Most instructions of the whole program; what the model was trained with if left out.",
)
@click.option(
    "--top",
    default=5,
    show_default=True,
    type=WholeNumber(1, isa.VOCABULARY_SIZE),
    metavar="K",
    help="How many instructions to show at each step.",
)
@json_option
def complete(prefix: str, directory: Path | None, max_length: int | None, top: int, as_json: bool) -> None:
    """Let a model go on with PREFIX, and run what comes out.

    The model always takes the likeliest instruction. Shown are the completion, with its end . if the model
    ended it, the outputs of the whole program and whether it is true, and for each step the instructions that
    the model held most likely. Without --model it is the model that comes with the checkout, in
    models/laptop.

    With - for PREFIX, one prefix is read from each line of the standard input, and a line is printed for
    each: the whole program and its verdict or, with --json, an object.

    An object has the keys prefix, completion (without the end), ended, program, outputs and true as
    `cadmus run --json` has them, and steps: for each, a list of instruction and probability.

    \b
    Examples:
      cadmus complete '62*4+54*4-'
      cadmus complete 'u1b2b3b$' --model results/quick/model
      cadmus sample equality | cut -c -10 | cadmus complete --json -
    """
    from cadmus.config import LONGEST_PROGRAM

    if max_length is not None and max_length > LONGEST_PROGRAM:
        raise InputError(f"--max-length {max_length}: a program has at most {LONGEST_PROGRAM} instructions")
    if prefix != "-":
        isa.check_prefix(prefix)
    from cadmus.model.inference import Cadmus

    model = Cadmus.load(directory)
    limit = max_length or model.max_length

    def ask(text: str) -> Completion:
        return continued(model, text, limit)

    def as_line(completion: Completion) -> str:
        return json.dumps(_as_object(completion, top))

    if prefix == "-":
        for _, completion in of_lines(ask):
            brief = f"{completion.program}{completion.end} {coloured_verdict(completion.result)}"
            click.echo(as_line(completion) if as_json else brief)
    elif as_json:
        click.echo(as_line(ask(prefix)))
    else:
        _show(ask(prefix), top)


def continued(model: "Cadmus", prefix: str, max_length: int) -> Completion:
    """A prefix and how a model goes on, with at most ``max_length`` instructions of both together.

    Raises:
        InputError: the prefix is empty, too long or has an end.
    """
    isa.check_prefix(prefix)
    if len(prefix) > max_length:
        raise InputError(
            f"the prefix {reprlib.repr(prefix)} has {len(prefix)} instructions, a program at most "
            f"{max_length}; --max-length allows more"
        )
    continuations, ended = model.complete([prefix], max_length)
    (continuation,) = continuations.to_strings()
    program = prefix + continuation
    # One step for each instruction written and one for the end, which was asked for only if there was room.
    steps = len(continuation) + bool(ended[0])
    first = len(prefix) - 1
    probabilities = probabilities_of(model, program)[first : first + steps]
    return Completion(prefix, continuation, bool(ended[0]), reference.run(program), probabilities)


def probabilities_of(model: "Cadmus", program: str) -> "np.ndarray":
    """Probabilities of what follows each instruction of a program: float32, shape (instructions, 65)."""
    import numpy as np

    (log_probabilities,) = model.log_probabilities([program])
    probabilities: np.ndarray = np.exp(log_probabilities)
    return probabilities


def likeliest(probabilities: "np.ndarray", top: int) -> list[tuple[str, float]]:
    """The ``top`` likeliest instructions of a step and their probabilities."""
    tokens = (-probabilities).argsort(kind="stable")[:top].tolist()
    return [(isa.INSTRUCTIONS[token].symbol, float(probabilities[token])) for token in tokens]


def with_share(symbol: str, share: float) -> str:
    """An instruction and its probability, in columns of one width."""
    return f"{symbol} {100 * share:5.1f} %"


def _as_object(completion: Completion, top: int) -> dict[str, object]:
    steps = [
        [{"instruction": symbol, "probability": round(share, 6)} for symbol, share in likeliest(row, top)]
        for row in completion.probabilities
    ]
    return {
        "prefix": completion.prefix,
        "completion": completion.continuation,
        "ended": completion.ended,
        **as_object(completion.program, completion.result),
        "steps": steps,
    }


def _show(completion: Completion, top: int) -> None:
    written = completion.continuation + completion.end
    cut_off = "" if completion.ended else f" (cut off after {len(completion.program)} instructions)"
    click.echo(f"prefix      {completion.prefix}")
    click.echo(f"completion  {written}{cut_off}")
    click.echo(f"outputs     {' '.join(map(show, completion.result.outputs))}".rstrip())
    click.echo(f"verdict     {coloured_verdict(completion.result)}")
    if not len(completion.probabilities):
        return
    click.echo(heading("\nstep  likeliest first"))
    for step, row in enumerate(completion.probabilities, start=1):
        click.echo(f"{step:>4}  {'   '.join(with_share(*guess) for guess in likeliest(row, top))}")


COMMANDS = (complete,)
