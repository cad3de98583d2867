"""``cadmus complete``."""

import json
import reprlib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from cadmus import isa
from cadmus.cli.machine import as_object, verdict
from cadmus.cli.options import WholeNumber, heading, json_option, map_lines, model_option, program_command
from cadmus.errors import InputError
from cadmus.vm import reference
from cadmus.vm.reference import Result, show

if TYPE_CHECKING:
    import numpy as np

    from cadmus.model.inference import Cadmus


class Completion(NamedTuple):
    """A greedy completion of a prefix.

    Attributes:
        prefix: The given instructions.
        completion: The instructions that the model added, without the end.
        end: The end ``.`` if the model wrote it; empty if the program was cut off.
        result: The result of executing the whole program.
        probabilities: Probability of each instruction at each step, float32 of shape (steps, 65).
    """

    prefix: str
    completion: str
    end: str
    result: Result
    probabilities: "np.ndarray"


@program_command()
@click.argument("prefix")
@model_option
@click.option(
    "--max-length",
    type=WholeNumber(1),
    metavar="N",
    help="Maximum length of the whole program; by default that of the training programs.",
)
@click.option(
    "--top",
    default=5,
    show_default=True,
    type=WholeNumber(1, isa.VOCABULARY_SIZE),
    metavar="K",
    help="Show the K most likely instructions of each step.",
)
@json_option
def complete(prefix: str, directory: Path | None, max_length: int | None, top: int, as_json: bool) -> None:
    """Complete PREFIX with a model and run the whole program.

    The completion is greedy: each step takes the most likely instruction. The output has the completion, with
    the end . if the model wrote it, the outputs of the whole program, whether it is true, and the most likely
    instructions of each step.

    If PREFIX is -, each line of standard input is a prefix. Each gives one line: the whole program and true
    or false or, with --json, an object.

    An object has the keys prefix, completion (without the end), ended, program, outputs and true as in
    `cadmus run --json`, and steps: for each step, a list of instruction and probability.

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
    if prefix != "-":
        found = greedy_completion(model, prefix, limit)
        if as_json:
            click.echo(_as_json(found, top))
        else:
            _show(found, top)
        return
    for _, found in map_lines(lambda line: greedy_completion(model, line, limit)):
        text = f"{found.prefix}{found.completion}{found.end} {verdict(found.result)}"
        click.echo(_as_json(found, top) if as_json else text)


def greedy_completion(model: "Cadmus", prefix: str, max_length: int) -> Completion:
    """Complete a prefix to a program of at most ``max_length`` instructions.

    Raises:
        InputError: The prefix is empty, too long or contains an end.
    """
    isa.check_prefix(prefix)
    if len(prefix) > max_length:
        raise InputError(
            f"the prefix {reprlib.repr(prefix)} has {len(prefix)} instructions, a program at most "
            f"{max_length}; --max-length allows more"
        )
    completions, ended = model.complete([prefix], max_length)
    (completion,) = completions.to_strings()
    end = isa.END if ended[0] else ""
    # One step per instruction written, the end included.
    first = len(prefix) - 1
    probabilities = next_probabilities(model, prefix + completion)[first : first + len(completion + end)]
    return Completion(prefix, completion, end, reference.run(prefix + completion), probabilities)


def next_probabilities(model: "Cadmus", program: str) -> "np.ndarray":
    """Return the next-token probabilities after each instruction: float32, shape (instructions, 65)."""
    import numpy as np

    (log_probabilities,) = model.log_probabilities([program])
    probabilities: np.ndarray = np.exp(log_probabilities)
    return probabilities


def top_instructions(probabilities: "np.ndarray", count: int) -> list[tuple[str, float]]:
    """Return the ``count`` most likely instructions of a step with their probabilities."""
    tokens = (-probabilities).argsort(kind="stable")[:count].tolist()
    return [(isa.INSTRUCTIONS[token].symbol, float(probabilities[token])) for token in tokens]


def with_probability(symbol: str, probability: float) -> str:
    """Return an instruction and its probability, with a fixed width."""
    from cadmus.evaluate.intervals import percent

    return f"{symbol} {percent(probability):>6}"


def _as_json(found: Completion, top: int) -> str:
    steps = [
        [
            {"instruction": symbol, "probability": round(probability, 6)}
            for symbol, probability in top_instructions(row, top)
        ]
        for row in found.probabilities
    ]
    answer = {
        "prefix": found.prefix,
        "completion": found.completion,
        "ended": bool(found.end),
        **as_object(found.prefix + found.completion, found.result),
        "steps": steps,
    }
    return json.dumps(answer)


def _show(found: Completion, top: int) -> None:
    length = len(found.prefix + found.completion)
    click.echo(f"prefix      {found.prefix}")
    click.echo(f"completion  {found.completion}{found.end or f' (cut off after {length} instructions)'}")
    click.echo(f"outputs     {' '.join(map(show, found.result.outputs))}".rstrip())
    click.echo(f"verdict     {verdict(found.result)}")
    if not len(found.probabilities):
        return
    click.echo(heading("\nstep  most likely first"))
    for step, row in enumerate(found.probabilities, start=1):
        click.echo(
            f"{step:>4}  {'   '.join(with_probability(*guess) for guess in top_instructions(row, top))}"
        )


COMMANDS = (complete,)
