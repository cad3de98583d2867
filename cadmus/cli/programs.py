"""``cadmus run`` and ``isa``, which need no extra, and ``sample``."""

import json
import sys
from pathlib import Path
from typing import Any

import click

from cadmus import isa
from cadmus.cli import options
from cadmus.errors import InputError, naming
from cadmus.vm import reference
from cadmus.vm.reference import Result, show


@click.command()
@click.argument("program")
@click.option("--trace", is_flag=True, help="Show the stack after each top-level instruction.")
@click.option("--calls", is_flag=True, help="Like --trace, with the instructions inside calls.")
@options.json_option
def run(program: str, trace: bool, calls: bool, as_json: bool) -> None:
    """Execute PROGRAM and print its outputs and whether it is true.

    The first line has the outputs, the top of the stack last: 7, 7:3 (with the decoration 3), [1 2:1 3] and
    NAN. The second line is true or false. Spaces in PROGRAM are ignored.

    If PROGRAM is -, each line of standard input is a program. Each prints one line as soon as it has run:
    true or false, or an object with --json.

    An object has the keys program, outputs and true. An output is null for NAN, a number, {"value": v,
    "decoration": d} if decorated, or a list of these for a sequence.

    \b
    Examples:
      cadmus run '34+7='
      cadmus run '3 4 + 7 ='
      cadmus run --trace '\\E*;4Im'
      cadmus run --calls '4f\\1-ER;'
      cadmus run --json 'u1b2b'
      printf '34+7=\\n34+8=\\n' | cadmus run --json -

    Put -- before a program that begins with -: cadmus run -- '-12+'.
    """
    traced = trace or calls
    if traced and (as_json or program == "-"):
        raise InputError("--trace and --calls show one program as text; drop --json, or name it instead of -")
    if program == "-":
        if sys.stdin is None:
            raise InputError("standard input: is closed; pipe programs into it, or open it with </dev/null")
        for number, line in enumerate(sys.stdin.buffer, start=1):
            program = isa.without_spaces(line.decode("utf-8", "replace").rstrip("\r\n"))
            with naming(f"line {number}"):
                result = reference.run(program)
            click.echo(json.dumps(as_object(program, result)) if as_json else truth(result))
        return
    program = isa.without_spaces(program)
    result = reference.run(program)
    if as_json:
        click.echo(json.dumps(as_object(program, result)))
        return
    if traced:
        echo_trace(program, calls)
    else:
        click.echo(" ".join(map(show, result.outputs)))
    click.echo(truth(result))


def echo_trace(program: str, calls: bool) -> None:
    """Print the stack after each instruction; those inside a call come before the calling one, indented."""
    click.echo(click.style("instruction  stack", bold=True))
    for step in reference.trace(program, calls=calls):
        click.echo(f"{'  ' * step.depth}{step.symbol:<13}{' '.join(map(show, step.stack))}".rstrip())


def truth(result: Result) -> str:
    """Return ``true`` in green or ``false`` in red."""
    return click.style("true", fg="green") if result.true else click.style("false", fg="red")


def as_object(program: str, result: Result) -> dict[str, Any]:
    """Return the JSON object of a program, with the keys ``program``, ``outputs`` and ``true``."""
    outputs = [reference.plain(value) for value in result.outputs]
    return {"program": program, "outputs": outputs, "true": result.true}


@click.command("isa")
def isa_command() -> None:
    """Print the table of the 65 instructions.

    The columns are the symbol, the effect on the stack, the meaning and the alternate symbol.

    \b
    Example:
      cadmus isa
    """
    cells = [(row.symbol, row.effect, row.meaning, row.alternate or "") for row in isa.INSTRUCTIONS]
    options.echo_table([("symbol", "effect", "meaning", "alternate"), *cells], numbers=False)


@click.command()
@click.argument("template")
# The maximum is that of a shard; whoever wants more wants a dataset.
@options.integer_option("-n", "--programs", "n", low=0, high=8_000_000, default=10, help="Programs to print.")
@click.option("--seed", default=1, type=click.IntRange(0), metavar="SEED", help="Random seed.")
@click.option("--split", default="train", metavar="SPLIT", help="train, validation, test or ood.")
@click.option("--config", type=options.CONFIG, help="Config with other ranges and lengths: a file or a name.")
@options.changes_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per program.")
def sample(
    template: str, n: int, seed: int, split: str, config: Path | None, changes: dict[str, Any], as_json: bool
) -> None:
    """Print true programs of TEMPLATE, one per line.

    A JSON object has the keys template, program, prompt, and x and y, the compared numbers (null if the
    template compares none).

    \b
    Examples:
      cadmus sample less_greater -n 5 --seed 7
      cadmus sample complete_algorithm -n 3 | cadmus run -
      cadmus sample equality --json | jq -r .prompt
    """
    from cadmus.config import Dataset
    from cadmus.dataset import sampler

    run_config = options.optional_config(config, changes)
    dataset = run_config.dataset if run_config else Dataset()
    samples = sampler.sample(dataset, seed, template, split, 0, n)
    programs = samples.programs.to_strings()
    if not as_json:
        click.echo("".join(f"{program}\n" for program in programs), nl=False)
        return
    nulls = [None] * len(samples)
    values = (nulls if column is None else column.tolist() for column in (samples.x, samples.y))
    for program, length, x, y in zip(programs, samples.prompt_length.tolist(), *values, strict=True):
        row = {"template": template, "program": program, "prompt": program[:length], "x": x, "y": y}
        click.echo(json.dumps(row))
