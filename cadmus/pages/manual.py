"""Manual of the instruction set, ``docs/isa.md``, generated from the table."""

from itertools import groupby
from pathlib import Path

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

INTRODUCTION = Path(__file__).with_name("manual.md").read_text(encoding="utf-8")


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
