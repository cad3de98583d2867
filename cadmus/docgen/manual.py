"""The manual of the instruction set, ``docs/isa.md``, generated from the table."""

from itertools import groupby

from cadmus import isa
from cadmus.common.tables import code, markdown
from cadmus.vm import reference

# A program for each instruction.
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
    """Return the manual as Markdown; the reference VM executes its examples."""
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

A program is any sequence of the {isa.VOCABULARY_SIZE} instructions below. One instruction is one character
and one token. The machine keeps a stack of values; it starts empty, and the values left at the end are the
outputs.

**Values.** A value is an integer from {integer_min:,} to {integer_max:,} with a
decoration from 0 to {max_decoration} (0 is none; 7 with the decoration 3 is written `7:3`), a sequence of at
most {max_sequence_length} such integers, or NAN. An integer outside this range or a longer sequence is NAN.

**Effects.** An instruction takes the values before the arrow and leaves those after it; the last one is the
top of the stack. A missing input is NAN, and a wrong type gives NAN. If any input is NAN, all outputs
are NAN. The number of outputs of a program therefore depends on its text only, and no program fails.

**Truth.** 0 and NAN are false; everything else is true, including an empty sequence. A program is true if it
leaves at least one value and all its values are true.

**Sequences.** The groups arithmetic, comparison and logic, unary, and decorations work element by element. A
number is combined with every element; two sequences need the same length. One NAN element makes the whole
result NAN. The results have no decoration, except those of `:`; instructions that move or select values keep
it.

**Calls.** A definition is between `\\` and `;`, or reaches to the end of the program. The first three are
the subroutines 0, 1 and 2; calls may come before them. A call has its own stack, which starts with its
arguments; its value is the top of that stack at the end, NAN if the stack is empty. An undefined subroutine
gives NAN. `m`, `w` and `l` stop at the first call that makes the whole NAN.

**Limits.** Calls may be nested to a depth of {max_call_depth}; a deeper one gives NAN. A program may execute
{call_budget:,} instructions inside calls. After that a call that would execute another one, and every new
call, gives NAN; the top level always finishes.

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
