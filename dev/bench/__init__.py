"""Speed on this machine: ``python -m dev.bench NAME``.

A benchmark is a function that returns a flat object of settings and results. Cells of a table have the key
``ROW_COLUMN``. Its parameters ``config``, ``model`` and ``programs`` are options of the command.
"""

from dev.measure import Facts


def flat(facts: Facts, rows: dict[str, Facts]) -> Facts:
    """Return settings and the cells of a table as one flat object."""
    return facts | {f"{row}_{column}": value for row, of in rows.items() for column, value in of.items()}
