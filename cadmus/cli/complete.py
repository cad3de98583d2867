"""``cadmus complete``."""

import json
import reprlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from cadmus import isa
from cadmus.cli.machine import as_object, verdict
from cadmus.cli.options import (
    PositiveNumber,
    WholeNumber,
    heading,
    json_option,
    map_lines,
    model_option,
    print_error,
    program_command,
)
from cadmus.errors import InputError
from cadmus.vm import reference
from cadmus.vm.reference import Result, show

if TYPE_CHECKING:
    import numpy as np

    from cadmus.model.inference import Cadmus


SAMPLES, TEMPERATURE, SEED = 100, 1.0, 0
"""Defaults of --verified."""
SAMPLED_AT_ONCE = 64


class Completion(NamedTuple):
    """A completion of a prefix.

    Attributes:
        prefix: The given instructions.
        completion: The instructions that the model added, without the end.
        end: The end ``.`` if the model wrote it; empty if the program was cut off.
        result: The result of executing the whole program.
        probabilities: Probability of each instruction at each step, float32 of shape (steps, 65).
        tries: Number of completions that were tried until this one, which is the first if none was verified.
    """

    prefix: str
    completion: str
    end: str
    result: Result
    probabilities: "np.ndarray"
    tries: int = 1

    @property
    def verified(self) -> bool:
        """True if the completion is verified, see :func:`is_verified`."""
        return is_verified(self.prefix, self.completion, bool(self.end))


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
@click.option(
    "--verified",
    is_flag=True,
    help="Sample until the whole program is true, and the completion ended and drops nothing.",
)
@click.option(
    "--samples",
    type=WholeNumber(1),
    metavar="N",
    help=f"With --verified, sample at most N completions after the greedy one; {SAMPLES} by default.",
)
@click.option(
    "--temperature",
    type=PositiveNumber(),
    metavar="T",
    help=f"With --verified, divide the logits by T; {TEMPERATURE:g} by default.",
)
@click.option(
    "--seed",
    type=WholeNumber(0),
    metavar="SEED",
    help=f"With --verified, decides the samples; {SEED} by default.",
)
@json_option
def complete(
    prefix: str,
    directory: Path | None,
    max_length: int | None,
    top: int,
    verified: bool,
    samples: int | None,
    temperature: float | None,
    seed: int | None,
    as_json: bool,
) -> None:
    """Complete PREFIX with a model and run the whole program.

    The completion is greedy: each step takes the most likely instruction. The output has the completion, with
    the end . if the model wrote it, the outputs of the whole program, whether it is true, and the most likely
    instructions of each step.

    --verified tries the greedy completion first. It then samples until the whole program is true, and the
    completion ended and drops nothing. It prints the number of tries. If all fail, it prints the greedy
    completion and exits with 1.

    If PREFIX is -, each line of standard input is a prefix. Each gives one line: the whole program and true
    or false or, with --json, an object. With --verified, the number of tries follows, or - if all failed.

    An object has the keys prefix, completion (without the end), ended, program, outputs and true as in
    `cadmus run --json`, and steps: for each step, a list of instruction and probability. --verified adds
    verified and tries.

    \b
    Examples:
      cadmus complete '62*4+54*4-'
      cadmus complete 'u1b2b3b$' --model results/quick/model
      cadmus complete --verified '-4f1-4f4-4f' --samples 1000 --temperature 0.8
      cadmus sample equality | cut -c -10 | cadmus complete --json -
    """
    from cadmus.config import LONGEST_PROGRAM

    if max_length is not None and max_length > LONGEST_PROGRAM:
        raise InputError(f"--max-length {max_length}: a program has at most {LONGEST_PROGRAM} instructions")
    for name, value in {"--samples": samples, "--temperature": temperature, "--seed": seed}.items():
        if value is not None and not verified:
            raise InputError(f"{name} needs --verified")
    if prefix != "-":
        isa.check_prefix(prefix)
    from cadmus.model.inference import Cadmus

    model = Cadmus.load(directory)
    limit = max_length or model.max_length
    most = samples or SAMPLES

    def ask(prefix: str) -> Completion:
        greedy = greedy_completion(model, prefix, limit)
        if not verified or greedy.verified:
            return greedy
        found = sampled_completion(model, prefix, limit, most, temperature or TEMPERATURE, seed or SEED)
        return found or greedy._replace(tries=1 + most)

    unverified = asked = 0
    for _, found in map_lines(ask) if prefix == "-" else [(prefix, ask(prefix))]:
        asked += 1
        unverified += not found.verified
        if as_json:
            click.echo(_as_json(found, top, verified))
        elif prefix == "-":
            click.echo(_as_line(found, verified))
        else:
            _show(found, top, verified)
    if verified and unverified:
        of = f"for {unverified} of {asked} prefixes" if prefix == "-" else f"of {reprlib.repr(prefix)}"
        print_error(
            f"no verified completion {of} in {1 + most} tries; raise --samples or change --temperature"
        )
        sys.exit(1)


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
    return _executed(model, prefix, completion, isa.END * bool(ended[0]))


def sampled_completion(
    model: "Cadmus", prefix: str, max_length: int, samples: int, temperature: float, seed: int
) -> Completion | None:
    """Sample completions of a prefix until one is verified.

    Args:
        model: The model.
        prefix: At least one instruction, at most ``max_length``.
        max_length: Maximum number of instructions in the whole program.
        samples: Maximum number of samples.
        temperature: Divisor of the logits, above 0.
        seed: At least 0; decides the samples.

    Returns:
        The first verified completion; its tries count the greedy one before the samples. None if all fail.
    """
    from cadmus.common.seeds import seed_of

    for first in range(0, samples, SAMPLED_AT_ONCE):
        count = min(SAMPLED_AT_ONCE, samples - first)
        completions, ended = model.complete(
            [prefix], max_length, samples=count, temperature=temperature, seed=seed_of(seed, first)
        )
        for tries, (completion, end) in enumerate(
            zip(completions.to_strings(), ended.tolist(), strict=True), start=2 + first
        ):
            if is_verified(prefix, completion, end):
                return _executed(model, prefix, completion, isa.END)._replace(tries=tries)
    return None


def is_verified(prefix: str, completion: str, ended: bool) -> bool:
    """Tell whether the whole program is true, and the completion ended and drops nothing.

    This is the metric *verified* of docs/grading.md.
    """
    return ended and isa.DROP not in completion and reference.run(prefix + completion).true


def _executed(model: "Cadmus", prefix: str, completion: str, end: str) -> Completion:
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


def _as_line(found: Completion, verified: bool) -> str:
    line = f"{found.prefix}{found.completion}{found.end} {verdict(found.result)}"
    if verified:
        line += f" {found.tries if found.verified else '-'}"
    return line


def _as_json(found: Completion, top: int, verified: bool) -> str:
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
        **({"verified": found.verified, "tries": found.tries} if verified else {}),
        "steps": steps,
    }
    return json.dumps(answer)


def _show(found: Completion, top: int, verified: bool) -> None:
    length = len(found.prefix + found.completion)
    click.echo(f"prefix      {found.prefix}")
    click.echo(f"completion  {found.completion}{found.end or f' (cut off after {length} instructions)'}")
    click.echo(f"outputs     {' '.join(map(show, found.result.outputs))}".rstrip())
    click.echo(f"verdict     {verdict(found.result)}")
    if verified:
        click.echo(f"tries       {found.tries}")
    if not len(found.probabilities):
        return
    click.echo(heading("\nstep  most likely first"))
    for step, row in enumerate(found.probabilities, start=1):
        click.echo(
            f"{step:>4}  {'   '.join(with_probability(*guess) for guess in top_instructions(row, top))}"
        )


COMMANDS = (complete,)
