"""Table 2: instructions of the number comparison and their alternate symbols."""

import polars as pl

from cadmus import isa


def table() -> pl.DataFrame:
    """Return the instructions of :mod:`cadmus.isa` that have an alternate symbol."""
    return pl.DataFrame(
        [
            {
                "Instruction": f"`{row.symbol}`",
                "Effect": row.effect,
                "Meaning": row.meaning,
                "Alternate": f"`{row.alternate}`",
            }
            for row in isa.INSTRUCTIONS
            if row.alternate is not None
        ]
    )
