"""``cadmus run`` and ``cadmus isa``."""

import json
from typing import Any

import click

from cadmus import isa
from cadmus.cli.options import echo_table, heading, json_option, of_lines, program_command
from cadmus.errors import InputError
from cadmus.vm import reference
from cadmus.vm.reference import Result, show


@program_command()
@click.argument("program")
@click.option("--trace", is_flag=True, help="Show the stack after each instruction of the top level.")
@click.option("--calls", is_flag=True, help="With --trace, also of each instruction inside calls.")
@json_option
def run(program: str, trace: bool, calls: bool, as_json: bool) -> None:
    """Execute PROGRAM and print its outputs and whether it is true.

    The outputs stand in one line, the top of the stack last: 7, 7:3 (with the decoration 3), [1 2:1 3] and
    NAN. The next line is true or false.

    With - for PROGRAM, one program is read from each line of the standard input, and a line is printed for
    each as soon as it has run: true or false or, with --json, an object.

    An object has the keys program, outputs and true. An output is null for NAN, a number, {"value": v,
    "decoration": d} when decorated, and a list of these for a sequence.

    \b
    Examples:
      cadmus run '34+7='
      cadmus run --trace '\\E*;4Im'
      cadmus run --trace --calls '4f\\1-ER;'
      cadmus run --json 'u1b2b'
      printf '34+7=\\n34+8=\\n' | cadmus run --json -

    A program that begins with - can be given as it is, or after -- if it looks like an option:
    cadmus run '-12+', cadmus run -- --json
    """
    if trace and (as_json or program == "-"):
        raise InputError("--trace shows one program as text; leave out --json, and give a program for -")
    if calls and not trace:
        raise InputError("--calls says what --trace shows; give both")
    if program == "-":
        for line, result in of_lines(reference.run):
            if as_json:
                print(json.dumps(as_object(line, result)), flush=True)
            else:
                click.echo(coloured_verdict(result))
    elif as_json:
        click.echo(json.dumps(as_object(program, reference.run(program))))
    elif trace:
        click.echo(heading("instruction  stack"))
        for step in reference.trace(program, calls=calls):
            # What is inside a call stands before the instruction that calls, farther to the right.
            inside = "  " * step.depth
            click.echo(f"{inside}{step.symbol:<13}{' '.join(map(show, step.stack))}".rstrip())
        click.echo(coloured_verdict(reference.run(program)))
    else:
        result = reference.run(program)
        click.echo(" ".join(map(show, result.outputs)))
        click.echo(coloured_verdict(result))


def verdict(result: Result) -> str:
    """``true`` or ``false``."""
    return "true" if result.true else "false"


def coloured_verdict(result: Result) -> str:
    """:func:`verdict`, green or red on a terminal."""
    return click.style(verdict(result), fg="green" if result.true else "red")


def as_object(program: str, result: Result) -> dict[str, Any]:
    """What JSON says of a program: the keys ``program``, ``outputs`` and ``true``."""
    return {
        "program": program,
        "outputs": [reference.plain(value) for value in result.outputs],
        "true": result.true,
    }


@click.command("isa")
@click.option(
    "--json", "form", flag_value="json", help="Print the table, the limits and their digest as JSON."
)
@click.option("--markdown", "form", flag_value="markdown", help="Print the manual, docs/isa.md.")
def isa_command(form: str | None) -> None:
    """Print the table of the 65 instructions.

    It has the symbol, its effect on the stack, its meaning, and its alternate symbol.

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
        header = ("symbol", "effect", "meaning", "alternate")
        cells = [(row.symbol, row.effect, row.meaning, row.alternate or "") for row in isa.INSTRUCTIONS]
        echo_table([header, *cells], numbers=False)


COMMANDS = (run, isa_command)
