"""Manual of the instruction set, ``docs/isa.md``, generated from the table."""

from itertools import groupby

from cadmus import isa
from cadmus.tables import code, markdown
from cadmus.vm import reference

# One line per group of instructions.
_PROGRAMS = r"""
12.3
0 1 2 3 4 5 6 7 8 9 t Z u
34+ 34- 34* 7~2/ 7~2% 37x 37n
4I2< 34> 34+7= 30& 30|
34+8=! 3I? 3I' 7B 7~ 7~a 4Ie
5E 56_ 56s 56o 456r 056i
\3*;5f 5f\3*;2
\3*;5f \3*;\4+;5g \3*;\4+;\E*;5h \-;73F \3*;\-;73G \1-ER;5f
\E*;4Im \2%;6Iw \+;5I0l
u7b8b 2I3Ic 5IZ@ 5IL 5I$ 5IX u7b4bN 3IA u7b41:b4bS 4IV 4Iu1b0b0b1bK 4I 442:Y
3I2: 72:"
"""
EXAMPLES = dict(zip(isa.BY_SYMBOL, _PROGRAMS.split(), strict=True))
"""One program per instruction, in the order of the table."""

INTRODUCTION = """\
# The instruction set

`cadmus isa --markdown` generates this page from the table in `cadmus/isa.py` (digest `{digest}`).

A program is any sequence of the {size} instructions below. Each instruction is one character
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


def manual() -> str:
    """Return the manual as Markdown; the reference VM executes the examples."""
    parts = [INTRODUCTION.format(digest=isa.digest(), size=isa.VOCABULARY_SIZE, **isa.LIMITS)]
    for group, instructions in groupby(isa.INSTRUCTIONS, key=lambda row: row.group):
        rows = []
        for row in instructions:
            program = EXAMPLES[row.symbol]
            outputs = " ".join(map(reference.show, reference.run(program).outputs))
            alternate = code(row.alternate) if row.alternate else ""
            example = f"{code(program)} leaves {code(outputs)}"
            rows.append([code(row.symbol), row.name, row.effect, row.meaning, alternate, example])
        table = markdown(["symbol", "name", "effect", "meaning", "alternate", "example"], rows)
        parts.append(f"## {group.capitalize()}\n\n{table}")
    return "\n".join(parts)
