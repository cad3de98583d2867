"""``cadmus complete``."""

import json
import reprlib
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from cadmus import isa
from cadmus.cli.machine import as_object, verdict
from cadmus.cli.options import (
    PositiveNumber,
    WholeNumber,
    collecting_no_garbage,
    device_option,
    heading,
    json_option,
    map_batches,
    model_option,
    print_error,
    program_command,
    usable_device,
)
from cadmus.errors import InputError
from cadmus.model import GENERATION_CONFIG
from cadmus.vm import reference
from cadmus.vm.reference import Result, show

if TYPE_CHECKING:
    import numpy as np

    from cadmus.model.inference import Cadmus
    from cadmus.model.sampling import Sampler


TRIES, TEMPERATURE, SEED = 100, 1.0, 0
"""Defaults of the options."""
SAMPLED_AT_ONCE = 64
"""Completions of a prefix that --verified samples at once."""
AT_ONCE = 256
"""Completions in a batch."""


class Completion(NamedTuple):
    """A completion of a prefix.

    Attributes:
        prefix: The given instructions.
        completion: The instructions that the model added, without the end.
        end: The end ``.`` if the model wrote it; empty if the program was cut off.
        result: The result of executing the whole program.
        tries: Number of completions that were tried until this one, which is the first if none was verified.
    """

    prefix: str
    completion: str
    end: str
    result: Result
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
    "-n",
    "--samples",
    type=WholeNumber(1),
    metavar="N",
    help=f"Sample N completions; with --verified, at most N after the greedy one, {TRIES} by default.",
)
@click.option(
    "--temperature",
    type=PositiveNumber(),
    metavar="T",
    help=f"Sample with the logits divided by T; {TEMPERATURE:g} by default.",
)
@click.option(
    "--seed", type=WholeNumber(0), metavar="SEED", help=f"Random seed of the samples; {SEED} by default."
)
@click.option(
    "--verified",
    is_flag=True,
    help="Sample until the whole program is true, and the completion ended and drops nothing.",
)
@device_option
@json_option
def complete(
    prefix: str,
    directory: Path | None,
    max_length: int | None,
    top: int,
    samples: int | None,
    temperature: float | None,
    seed: int | None,
    verified: bool,
    device: str | None,
    as_json: bool,
) -> None:
    """Complete PREFIX with a model and run the whole program.

    By default the completion is greedy: each step takes the most likely instruction. With -n or --temperature
    it is sampled. The command prints the completion, with the end . if the model wrote it, the outputs of the
    whole program, whether it is true, and the most likely instructions of each step. Of several samples it
    prints one line each: the whole program, and true or false. Spaces in PREFIX are ignored.

    --verified tries the greedy completion first. It then samples until the whole program is true, and the
    completion ended and drops nothing. It prints the number of tries. If all fail, it prints the greedy
    completion and exits with 1.

    If PREFIX is -, each line of standard input is a prefix. Prefixes are completed in batches, and each
    completion is one line. With --verified, the number of tries follows, or - if all failed.

    --json prints an object for each completion, with the keys prefix, completion (without the end), ended,
    program, outputs and true as in `cadmus run --json`, and steps: for each step, a list of instruction and
    probability. --verified adds verified and tries.

    \b
    Examples:
      cadmus complete '62*4+54*4-'
      cadmus complete 'u1b2b3b$' --model results/quick/model
      cadmus complete '34+' -n 5 --temperature 0.8
      cadmus complete --verified '-4f1-4f4-4f' -n 1000
      cadmus sample equality | cut -c -10 | cadmus complete --json -
    """
    from cadmus.config import LONGEST_PROGRAM

    if max_length is not None and max_length > LONGEST_PROGRAM:
        raise InputError(f"--max-length {max_length}: a program has at most {LONGEST_PROGRAM} instructions")
    sampled = not verified and (samples is not None or temperature is not None)
    if seed is not None and not (sampled or verified):
        raise InputError("--seed: the greedy completion is not random; add -n, --temperature or --verified")
    many = prefix == "-"
    if not many:
        prefix = isa.check_prefix(isa.without_spaces(prefix))
    with collecting_no_garbage():
        from cadmus.model.inference import Cadmus
        from cadmus.model.parallel import one_thread

        # One completion gains nothing from a second thread, which would wait for a core.
        if not (many or samples or verified):
            click.get_current_context().with_resource(one_thread())
        model = Cadmus.load(directory, usable_device(device))
    completer = Completer(
        model,
        max_length or model.max_length,
        sampled,
        verified,
        samples,
        temperature or TEMPERATURE,
        seed or SEED,
        steps=as_json or not (many or (sampled and samples not in (None, 1))),
    )
    answers = (
        map_batches(completer.check, completer.ask, max(1, AT_ONCE // (samples or 1)))
        if many
        else completer.ask([completer.check(prefix)])
    )
    asked = unverified = 0
    for found, probabilities in answers:
        asked += 1
        unverified += not found.verified
        if probabilities is None:
            click.echo(_as_line(found, verified))
        elif as_json:
            click.echo(_as_json(found, probabilities, top, verified))
        else:
            _show(found, probabilities, top, verified)
    if verified and unverified:
        of = f"for {unverified} of {asked} prefixes" if many else f"of {reprlib.repr(prefix)}"
        tries = 1 + (samples or TRIES)
        print_error(f"no verified completion {of} in {tries} tries; raise -n or change --temperature")
        sys.exit(1)


class Completer(NamedTuple):
    """Completes prefixes as the options say.

    Attributes:
        model: The model.
        max_length: Maximum number of instructions in the whole program.
        sampled: Sample instead of taking the most likely instructions.
        verified: Sample until a completion is verified.
        samples: Completions per prefix, 1 by default; with ``verified`` the most after the greedy one.
        temperature: Divisor of the logits of samples, above 0.
        seed: Of the samples, at least 0.
        steps: Also return probabilities.
    """

    model: "Cadmus"
    max_length: int
    sampled: bool
    verified: bool
    samples: int | None
    temperature: float
    seed: int
    steps: bool

    def check(self, prefix: str) -> str:
        """Return ``prefix`` if it can be completed.

        Raises:
            InputError: The prefix is empty, too long, no program or contains an end.
        """
        if len(isa.check_prefix(prefix)) > self.max_length:
            limit = f"{self.max_length} (--max-length)"
            if self.max_length == self.model.max_length:
                limit = f"{self.max_length} ({GENERATION_CONFIG} of the model); --max-length allows more"
            raise InputError(
                f"the prefix {reprlib.repr(prefix)} has {len(prefix)} instructions, a program at most {limit}"
            )
        return prefix

    def ask(self, prefixes: list[str], before: int = 0) -> "Iterator[tuple[Completion, np.ndarray | None]]":
        """Yield the completions of each prefix, each with the probabilities of :func:`step_probabilities`.

        Args:
            prefixes: From :meth:`check`.
            before: Number of prefixes before these, which decides their samples.
        """
        found = self._completions(prefixes, before)
        if not self.steps:
            yield from ((completion, None) for completion in found)
            return
        # A verified completion may take long, and is shown once it is there.
        while part := list(islice(found, 1 if self.verified else AT_ONCE)):
            yield from zip(part, step_probabilities(self.model, part), strict=True)

    def _completions(self, prefixes: list[str], before: int) -> Iterator[Completion]:
        if self.sampled:
            count = self.samples or 1
            return samples_of(
                self.model, prefixes, self.max_length, count, self.temperature, self.seed, before * count
            )
        greedy = complete_all(self.model, prefixes, self.max_length)
        return map(self._verify, greedy) if self.verified else iter(greedy)

    def _verify(self, greedy: Completion) -> Completion:
        """Return the completion, or a verified sample in its place."""
        if greedy.verified:
            return greedy
        most = self.samples or TRIES
        found = sampled_completion(
            self.model, greedy.prefix, self.max_length, most, self.temperature, self.seed
        )
        return found or greedy._replace(tries=1 + most)


def complete_all(
    model: "Cadmus", prefixes: list[str], max_length: int, sampler: "Sampler | None" = None
) -> list[Completion]:
    """Complete prefixes in a batch, greedily without a sampler.

    Raises:
        InputError: A prefix is empty or contains an end.
        ValueError: A prefix has more than ``max_length`` instructions.
    """
    completions, ended = model.complete(prefixes, max_length, sampler)
    return [
        Completion(prefix, completion, isa.END * end, reference.run(prefix + completion))
        for prefix, completion, end in zip(prefixes, completions.to_strings(), ended.tolist(), strict=True)
    ]


def samples_of(
    model: "Cadmus",
    prefixes: Iterable[str],
    max_length: int,
    count: int,
    temperature: float,
    seed: int,
    before: int = 0,
) -> Iterator[Completion]:
    """Yield ``count`` sampled completions of each prefix.

    Args:
        model: The model.
        prefixes: Each with at least one instruction, at most ``max_length``.
        max_length: Maximum number of instructions in the whole program.
        count: Completions per prefix.
        temperature: Divisor of the logits, above 0.
        seed: At least 0; decides the samples with the number of those before, whatever the batches.
        before: Number of completions sampled before.
    """
    from cadmus.model.sampling import Sampler

    # Never all at once: the count has no limit.
    asked = (prefix for prefix in prefixes for _ in range(count))
    while part := list(islice(asked, AT_ONCE)):
        sampler = Sampler(len(part), temperature, seed, first=before)
        yield from complete_all(model, part, max_length, sampler)
        before += len(part)


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
    from cadmus.tools import seed_of

    for first in range(0, samples, SAMPLED_AT_ONCE):
        count = min(SAMPLED_AT_ONCE, samples - first)
        completions, ended = model.complete(
            [prefix], max_length, samples=count, temperature=temperature, seed=seed_of(seed, first)
        )
        for tries, (completion, end) in enumerate(
            zip(completions.to_strings(), ended.tolist(), strict=True), start=2 + first
        ):
            if is_verified(prefix, completion, end):
                return Completion(prefix, completion, isa.END, reference.run(prefix + completion), tries)
    return None


def is_verified(prefix: str, completion: str, ended: bool) -> bool:
    """Tell whether the whole program is true, and the completion ended and drops nothing.

    This is the metric *verified* of docs/grading.md.
    """
    return ended and isa.DROP not in completion and reference.run(prefix + completion).true


def step_probabilities(model: "Cadmus", completions: list[Completion]) -> "Iterator[np.ndarray]":
    """Yield the probability of each instruction at each step of each completion, its end included.

    Yields:
        float32, shape (steps, 65).
    """
    import numpy as np

    log_probabilities = model.log_probabilities([found.prefix + found.completion for found in completions])
    for found, of_program in zip(completions, log_probabilities, strict=True):
        first = len(found.prefix) - 1
        yield np.exp(of_program[first : first + len(found.completion + found.end)])


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


def _as_json(found: Completion, probabilities: "np.ndarray", top: int, verified: bool) -> str:
    steps = [
        [
            {"instruction": symbol, "probability": round(probability, 6)}
            for symbol, probability in top_instructions(row, top)
        ]
        for row in probabilities
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


def _show(found: Completion, probabilities: "np.ndarray", top: int, verified: bool) -> None:
    length = len(found.prefix + found.completion)
    click.echo(f"prefix      {found.prefix}")
    click.echo(f"completion  {found.completion}{found.end or f' (cut off after {length} instructions)'}")
    click.echo(f"outputs     {' '.join(map(show, found.result.outputs))}".rstrip())
    click.echo(f"verdict     {verdict(found.result)}")
    if verified:
        click.echo(f"tries       {found.tries}")
    if not len(probabilities):
        return
    click.echo(heading("\nstep  most likely first"))
    for step, row in enumerate(probabilities, start=1):
        click.echo(
            f"{step:>4}  {'   '.join(with_probability(*guess) for guess in top_instructions(row, top))}"
        )


COMMANDS = (complete,)
