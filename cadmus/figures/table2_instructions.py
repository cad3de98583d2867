"""Table 2: instructions of the number comparison and their alternate symbols."""

import polars as pl

from cadmus import isa


def table() -> pl.DataFrame:
    """Return the instructions of :mod:`cadmus.isa` that have an alternate symbol."""
    rows = [
        (f"`{row.symbol}`", row.effect, row.meaning, f"`{row.alternate}`")
        for row in isa.INSTRUCTIONS
        if row.alternate is not None
    ]
    return pl.DataFrame(rows, ["Instruction", "Effect", "Meaning", "Alternate"], orient="row")
