"""Manual of the instruction set, ``docs/isa.md``, generated from the table."""

from itertools import groupby

from cadmus import isa
from cadmus.tables import code, markdown
from cadmus.vm import reference

# One program per instruction.
EXAMPLES: dict[str, str] = {
    ".": "12.3",
    **{digit: digit for digit in "0123456789"},
    "t": "t",
    "Z": "Z",
    "u": "u",
    "+": "34+",
    "-": "34-",
    "*": "34*",
    "/": "7~2/",
    "%": "7~2%",
    "x": "37x",
    "n": "37n",
    "<": "4I2<",
    ">": "34>",
    "=": "34+7=",
    "&": "30&",
    "|": "30|",
    "!": "34+8=!",
    "?": "3I?",
    "'": "3I'",
    "B": "7B",
    "~": "7~",
    "a": "7~a",
    "e": "4Ie",
    "E": "5E",
    "_": "56_",
    "s": "56s",
    "o": "56o",
    "r": "456r",
    "i": "056i",
    "\\": r"\3*;5f",
    ";": r"5f\3*;2",
    "f": r"\3*;5f",
    "g": r"\3*;\4+;5g",
    "h": r"\3*;\4+;\E*;5h",
    "F": r"\-;73F",
    "G": r"\3*;\-;73G",
    "R": r"\1-ER;5f",
    "m": r"\E*;4Im",
    "w": r"\2%;6Iw",
    "l": r"\+;5I0l",
    "b": "u7b8b",
    "c": "2I3Ic",
    "@": "5IZ@",
    "L": "5IL",
    "$": "5I$",
    "X": "5IX",
    "N": "u7b4bN",
    "A": "3IA",
    "S": "u7b41:b4bS",
    "V": "4IV",
    "K": "4Iu1b0b0b1bK",
    "I": "4I",
    "Y": "442:Y",
    ":": "3I2:",
    '"': '72:"',
}


def manual() -> str:
    """Return the manual as Markdown; the reference VM executes the examples."""
    groups = groupby(isa.INSTRUCTIONS, key=lambda row: row.group)
    sections = [f"## {name.capitalize()}\n\n{_table(list(rows))}" for name, rows in groups]
    return "\n".join([_introduction(**isa.LIMITS), *sections])


def _introduction(
    *,
    integer_min: int,
    integer_max: int,
    max_sequence_length: int,
    max_decoration: int,
    max_call_depth: int,
    call_budget: int,
) -> str:
    return f"""\
# The instruction set

`cadmus isa --markdown` generates this page from the table in `cadmus/isa.py` (digest `{isa.digest()}`).

A program is any sequence of the {isa.VOCABULARY_SIZE} instructions below. Each instruction is one character
and one token. The machine works on a stack of values. The stack starts empty, and the values left at the
end are the outputs.

**Values.** A value is an integer from {integer_min:,} to {integer_max:,} with a decoration from 0 to
{max_decoration} (0 means none; 7 with the decoration 3 is shown as `7:3`), a sequence of at most
{max_sequence_length} such integers, or NAN. Integers outside this range and longer sequences are NAN.

**Effects.** An instruction takes the values before the arrow and leaves the values after it, the top of the
stack last. A missing input is NAN, and an input of the wrong type gives NAN. If any input is NAN, all
outputs are NAN. So the text of a program determines its number of outputs, and no program fails. In the
tables, s, z and q are sequences and k is a number.

**Truth.** 0 and NAN are false; every other value is true, including the empty sequence. A program is true
if it leaves at least one value and all its values are true.

**Sequences.** The groups arithmetic, comparison and logic, unary, and decorations work element by element.
A number is combined with every element; two sequences must have the same length. One NAN element makes the
whole result NAN. Results have no decoration, except those of `:`. Instructions that move or select values
keep decorations.

**Calls.** A definition starts with `\\` and ends with `;` or at the end of the program. The first three
definitions are the subroutines 0, 1 and 2; calls may come before them. A call has its own stack, which
starts with its arguments. Its value is the top of that stack at the end, or NAN if the stack is empty. A
call of an undefined subroutine gives NAN. `m`, `w` and `l` stop at the first call that makes the result
NAN.

**Limits.** Calls can be nested to a depth of {max_call_depth}; deeper calls give NAN. A program can execute
{call_budget:,} instructions inside calls. After that, a running call that needs another instruction gives
NAN, and so does every new call. The top level always finishes.

The column *alternate* has the symbols of the paper's Table 2, for programs with changed symbols.
"""


def _table(instructions: list[isa.Instruction]) -> str:
    rows = []
    for row in instructions:
        program = EXAMPLES[row.symbol]
        outputs = " ".join(map(reference.show, reference.run(program).outputs))
        alternate = code(row.alternate) if row.alternate else ""
        example = f"{code(program)} leaves {code(outputs)}"
        rows.append([code(row.symbol), row.name, row.effect, row.meaning, alternate, example])
    return markdown(["symbol", "name", "effect", "meaning", "alternate", "example"], rows)
