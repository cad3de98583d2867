"""``cadmus complete``."""

import json
import math
import reprlib
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np

from cadmus import isa
from cadmus.cli import options
from cadmus.cli.programs import as_object, truth
from cadmus.config import LONGEST_PROGRAM
from cadmus.errors import InputError
from cadmus.evaluate.statistics.intervals import percent
from cadmus.vm import reference
from cadmus.vm.reference import show

AT_ONCE = 256
"""Completions that are sampled before they are printed."""


class Completion(NamedTuple):
    """A completion ``text`` of a prefix, without the end; ``ended`` is False if the program was cut off."""

    prefix: str
    text: str
    ended: bool

    @property
    def program(self) -> str:
        """The whole program, without the end."""
        return self.prefix + self.text

    @property
    def written(self) -> str:
        """The text that the model wrote, its end included."""
        return self.text + isa.END if self.ended else self.text


@click.command()
@click.argument("prefix")
@options.model_option
@options.integer_option(
    "--max-length",
    high=LONGEST_PROGRAM,
    help="Maximum length of the whole program; by default that of the training programs.",
)
@options.integer_option(
    "--top", high=isa.VOCABULARY_SIZE, default=5, help="Show the N most likely instructions of each step."
)
@options.integer_option(
    "-n",
    "--samples",
    high=100_000,
    help="Sample N completions.",
)
@click.option(
    "--temperature",
    type=click.FloatRange(0, min_open=True),
    metavar="T",
    help="Sample with the logits divided by T; 1 by default.",
)
@click.option("--seed", type=click.IntRange(0), metavar="SEED", help="Seed of the samples; 0 by default.")
@options.device_option
@options.json_option
def complete(
    prefix: str,
    directory: Path | None,
    max_length: int | None,
    top: int,
    samples: int | None,
    temperature: float | None,
    seed: int | None,
    device: str | None,
    as_json: bool,
) -> None:
    """Complete PREFIX with a model and run the whole program.

    By default the completion is greedy: each step takes the most likely instruction. With -n or --temperature
    it is sampled. The command prints the completion, with the end . if the model wrote it, the outputs of the
    whole program, whether it is true, and the most likely instructions of each step. Of several samples it
    prints one line each: the whole program, and true or false. Spaces in PREFIX are ignored.

    --json prints an object for each completion, with the keys prefix, completion (without the end), ended,
    program, outputs and true as in `cadmus run --json`, and steps: for each step, a list of instruction and
    probability.

    \b
    Examples:
      cadmus complete '62*4+54*4-'
      cadmus complete 'u1b2b3b$' --model results/quick/model
      cadmus complete '34+' -n 5 --temperature 0.8
    """
    random = samples is not None or temperature is not None
    if seed is not None and not random:
        raise InputError("--seed: the greedy completion is not random; add -n or --temperature")
    if temperature is not None and not math.isfinite(temperature):
        raise InputError(f"--temperature {temperature}: must be finite")
    prefix = isa.check_prefix(isa.without_spaces(prefix))
    from cadmus.model import inference

    if not samples:
        # One completion gains nothing from a second thread, which would wait for a core.
        click.get_current_context().with_resource(inference.one_thread())
    model = inference.Cadmus.load(directory, options.usable_device(device))
    limit = max_length or model.max_length
    if len(prefix) > limit:
        length = f"the prefix {reprlib.repr(prefix)} has {len(prefix)} instructions"
        raise InputError(f"{length}, a program at most {limit}; raise --max-length")
    count = samples or 1
    temperature = (temperature or 1.0) if random else 0.0
    write = _as_json if as_json else _as_text
    for first in range(0, count, AT_ONCE):
        number = min(AT_ONCE, count - first)
        sampling: dict[str, Any] = {"temperature": temperature, "seed": seed or 0, "first": first}
        texts, ended = model.complete([prefix], limit, samples=number, **sampling)
        batch = [Completion(prefix, *each) for each in zip(texts.to_strings(), ended.tolist(), strict=True)]
        if count > 1 and not as_json:
            for item in batch:
                click.echo(f"{prefix}{item.written} {truth(reference.run(item.program))}")
            continue
        # Full attention predicts no next instruction.
        no_steps = [np.empty((0, isa.VOCABULARY_SIZE))] * len(batch)
        tables = model.log_probabilities([item.program for item in batch]) if model.causal else no_steps
        for item, table in zip(batch, tables, strict=True):
            # The last instruction of the prefix predicts what follows it.
            start = len(prefix) - 1
            click.echo(write(item, _likeliest(table[start : start + len(item.written)], top)))


def _likeliest(log_probabilities: np.ndarray, count: int) -> list[list[tuple[str, float]]]:
    """Return the ``count`` most likely instructions of each step, with their probabilities."""
    order = (-log_probabilities).argsort(kind="stable")[:, :count]
    probabilities = np.exp(np.take_along_axis(log_probabilities, order, 1))
    symbols = np.array([row.symbol for row in isa.INSTRUCTIONS])[order]
    steps = zip(symbols.tolist(), probabilities.tolist(), strict=True)
    return [list(zip(*step, strict=True)) for step in steps]


def _as_json(completion: Completion, steps: list[list[tuple[str, float]]]) -> str:
    answer = {"prefix": completion.prefix, "completion": completion.text, "ended": completion.ended}
    answer |= as_object(completion.program, reference.run(completion.program))
    rows = [[{"instruction": name, "probability": round(value, 6)} for name, value in step] for step in steps]
    return json.dumps(answer | {"steps": rows})


def _as_text(completion: Completion, steps: list[list[tuple[str, float]]]) -> str:
    cut_off = "" if completion.ended else f" (cut off after {len(completion.program)} instructions)"
    result = reference.run(completion.program)
    lines = [
        f"prefix      {completion.prefix}",
        f"completion  {completion.written}{cut_off}",
        f"outputs     {' '.join(map(show, result.outputs))}".rstrip(),
        f"result      {truth(result)}",
    ]
    if steps:
        lines.append(click.style("\nstep  most likely first", bold=True))
    for number, step in enumerate(steps, start=1):
        guesses = "   ".join(f"{symbol} {percent(probability):>6}" for symbol, probability in step)
        lines.append(f"{number:>4}  {guesses}")
    return "\n".join(lines)
