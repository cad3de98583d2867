"""``cadmus run`` and ``cadmus isa``."""

import json
from typing import Any

import click

from cadmus import isa
from cadmus.cli.options import echo_table, heading, input_programs, json_option, program_command
from cadmus.errors import InputError, closest
from cadmus.vm import reference
from cadmus.vm.reference import Result, show


@program_command()
@click.argument("program")
@click.option("--trace", is_flag=True, help="Show the stack after each top-level instruction.")
@click.option("--calls", is_flag=True, help="Like --trace, with the instructions inside calls.")
@json_option
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

    A program may begin with -; put -- before it if it looks like an option:
    cadmus run '-12+', cadmus run -- --json
    """
    traced = trace or calls
    if traced and (as_json or program == "-"):
        option = "--trace" if trace else "--calls"
        raise InputError(f"{option} shows one program as text; drop --json and give a program instead of -")
    if program == "-":
        for (line,) in input_programs(isa.check_program, 1):
            result = reference.run(line)
            click.echo(json.dumps(as_object(line, result)) if as_json else verdict(result))
        return
    program = isa.without_spaces(program)
    result = reference.run(program)
    if as_json:
        click.echo(json.dumps(as_object(program, result)))
        return
    if traced:
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


@program_command("isa")
@click.argument("instruction", required=False)
@click.option(
    "--json", "form", flag_value="json", help="Print a JSON object, that of the table with limits and digest."
)
@click.option("--markdown", "form", flag_value="markdown", help="Print the manual, docs/isa.md.")
@click.pass_context
def isa_command(context: click.Context, instruction: str | None, form: str | None) -> None:
    """Print the table of the 65 instructions, or explain one.

    The columns of the table are the symbol, the effect on the stack, the meaning and the alternate symbol.
    INSTRUCTION is a symbol or a name.

    \b
    Examples:
      cadmus isa
      cadmus isa '='
      cadmus isa map --json
      cadmus isa --markdown > docs/isa.md
    """
    if instruction is not None:
        _explain(_instruction(instruction, context), form)
    elif form == "markdown":
        from cadmus.pages.manual import manual

        click.echo(manual(), nl=False)
    elif form == "json":
        rows = [_as_dict(row) for row in isa.INSTRUCTIONS]
        table = {"digest": isa.digest(), "limits": isa.LIMITS, "instructions": rows}
        click.echo(json.dumps(table, indent=2, ensure_ascii=False))
    else:
        cells = [(row.symbol, row.effect, row.meaning, row.alternate or "") for row in isa.INSTRUCTIONS]
        echo_table([("symbol", "effect", "meaning", "alternate"), *cells], numbers=False)


def _instruction(given: str, context: click.Context) -> isa.Instruction:
    """Return the instruction with a symbol or a name."""
    found = isa.BY_SYMBOL.get(given) or isa.BY_NAME.get(given)
    if found is None and given.startswith("--"):
        raise click.NoSuchOption(given, possibilities=["--json", "--markdown", "--help"], ctx=context)
    if found is None:
        near = closest(given, isa.BY_NAME)
        hint = f"did you mean {near!r}?" if near else "`cadmus isa` lists all"
        raise InputError(f"no instruction {given!r}; {hint}")
    return found


def _as_dict(row: isa.Instruction) -> dict[str, Any]:
    keys = ("symbol", "name", "group", "effect", "inputs", "outputs", "meaning", "alternate")
    return {key: getattr(row, key) for key in keys}


def _explain(row: isa.Instruction, form: str | None) -> None:
    if form == "markdown":
        raise InputError("--markdown prints the whole manual; drop it or the instruction")
    if form == "json":
        click.echo(json.dumps(_as_dict(row), indent=2, ensure_ascii=False))
        return
    from cadmus.pages.manual import EXAMPLES

    for key in ("symbol", "name", "group", "effect", "meaning", "alternate"):
        if value := getattr(row, key):
            click.echo(f"{key:<9}  {value}")
    program = EXAMPLES[row.symbol]
    click.echo(
        f"example    {program} leaves {' '.join(map(show, reference.run(program).outputs)) or 'nothing'}"
    )
