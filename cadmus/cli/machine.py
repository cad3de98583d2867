"""``cadmus run`` and ``cadmus isa``."""

import json
from typing import Any

import click

from cadmus import isa
from cadmus.cli.options import echo_table, heading, json_option, map_lines, program_command
from cadmus.errors import InputError
from cadmus.vm import reference
from cadmus.vm.reference import Result, show


@program_command()
@click.argument("program")
@click.option("--trace", is_flag=True, help="Show the stack after each top-level instruction.")
@click.option("--calls", is_flag=True, help="With --trace, also show the instructions inside calls.")
@json_option
def run(program: str, trace: bool, calls: bool, as_json: bool) -> None:
    """Execute PROGRAM and print its outputs and whether it is true.

    The first line has the outputs, the top of the stack last: 7, 7:3 (with the decoration 3), [1 2:1 3] and
    NAN. The second line is true or false.

    If PROGRAM is -, each line of standard input is a program. Each gives one line as soon as it has run: true
    or false or, with --json, an object.

    An object has the keys program, outputs and true. An output is null for NAN, a number, {"value": v,
    "decoration": d} if decorated, or a list of these for a sequence.

    \b
    Examples:
      cadmus run '34+7='
      cadmus run --trace '\\E*;4Im'
      cadmus run --trace --calls '4f\\1-ER;'
      cadmus run --json 'u1b2b'
      printf '34+7=\\n34+8=\\n' | cadmus run --json -

    A program may begin with -; put -- before it if it looks like an option:
    cadmus run '-12+', cadmus run -- --json
    """
    if trace and (as_json or program == "-"):
        raise InputError("--trace shows one program as text; drop --json and give a program instead of -")
    if calls and not trace:
        raise InputError("--calls needs --trace")
    if program == "-":
        for line, result in map_lines(reference.run):
            if as_json:
                print(json.dumps(as_object(line, result)), flush=True)
            else:
                click.echo(verdict(result))
        return
    result = reference.run(program)
    if as_json:
        click.echo(json.dumps(as_object(program, result)))
        return
    if trace:
        click.echo(heading("instruction  stack"))
        for step in reference.trace(program, calls=calls):
            # Instructions inside a call come before the calling one, indented.
            click.echo(f"{'  ' * step.depth}{step.symbol:<13}{' '.join(map(show, step.stack))}".rstrip())
    else:
        click.echo(" ".join(map(show, result.outputs)))
    click.echo(verdict(result))


def verdict(result: Result) -> str:
    """Return ``true`` in green or ``false`` in red."""
    return click.style("true", fg="green") if result.true else click.style("false", fg="red")


def as_object(program: str, result: Result) -> dict[str, Any]:
    """Return the JSON object of a program, with the keys ``program``, ``outputs`` and ``true``."""
    return {
        "program": program,
        "outputs": [reference.plain(value) for value in result.outputs],
        "true": result.true,
    }


@click.command("isa")
@click.option("--json", "form", flag_value="json", help="Print the table, the limits and the digest as JSON.")
@click.option("--markdown", "form", flag_value="markdown", help="Print the manual, docs/isa.md.")
def isa_command(form: str | None) -> None:
    """Print the table of the 65 instructions.

    Its columns are the symbol, the effect on the stack, the meaning and the alternate symbol.

    \b
    Examples:
      cadmus isa
      cadmus isa --markdown > docs/isa.md
    """
    if form == "markdown":
        from cadmus.docgen.manual import manual

        click.echo(manual(), nl=False)
    elif form == "json":
        keys = ("symbol", "name", "group", "effect", "inputs", "outputs", "meaning", "alternate")
        rows = [{key: getattr(row, key) for key in keys} for row in isa.INSTRUCTIONS]
        table = {"digest": isa.digest(), "limits": isa.LIMITS, "instructions": rows}
        click.echo(json.dumps(table, indent=2, ensure_ascii=False))
    else:
        cells = [(row.symbol, row.effect, row.meaning, row.alternate or "") for row in isa.INSTRUCTIONS]
        echo_table([("symbol", "effect", "meaning", "alternate"), *cells], numbers=False)


COMMANDS = (run, isa_command)
