"""Manual of the instruction set, ``docs/isa.md``, generated from the table."""

from itertools import groupby
from pathlib import Path

from cadmus import isa
from cadmus.tables import code, markdown
from cadmus.vm import reference

INTRODUCTION = Path(__file__).with_name("manual.md").read_text(encoding="utf-8")


def manual() -> str:
    """Return the manual as Markdown; the reference VM executes the examples."""
    parts = [INTRODUCTION.format(digest=isa.digest(), size=isa.VOCABULARY_SIZE, **isa.LIMITS)]
    for group, instructions in groupby(isa.INSTRUCTIONS, key=lambda row: row.group):
        rows = []
        for row in instructions:
            outputs = " ".join(map(reference.show, reference.run(row.example).outputs))
            alternate = code(row.alternate) if row.alternate else ""
            example = f"{code(row.example)} leaves {code(outputs)}"
            rows.append([code(row.symbol), row.name, row.effect, row.meaning, alternate, example])
        table = markdown(["symbol", "name", "effect", "meaning", "alternate", "example"], rows)
        parts.append(f"## {group.capitalize()}\n\n{table}")
    return "\n".join(parts)
