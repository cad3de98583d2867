"""Tables of figures and reports, given as data frames of strings."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from cadmus.evaluate.baselines import BASELINES
from cadmus.evaluate.intervals import percent
from cadmus.store import replacing
from cadmus.tables import escape, latex, markdown, plain


def render(table: pl.DataFrame) -> tuple[str, str]:
    """Return a table as Markdown and as LaTeX; cells between backticks are code in both."""
    rows = table.rows()
    cells = [[escape(cell) for cell in row] for row in rows]
    return markdown([escape(name) for name in table.columns], cells), latex(table.columns, rows)


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Return aligned columns in a Markdown text block; the first row is the header.

    For programs, whose instructions may be Markdown markup.
    """
    return f"```text\n{plain(rows[0], rows[1:])}\n```"


def best_accuracy(best: pl.DataFrame) -> str:
    """Return the accuracy of a best baseline in percent, and its name: "none" without baselines."""
    if best.is_empty():
        return "none"
    return baseline(best["policy"][0], best["accuracy"][0])


def baseline(policy: str, accuracy: float) -> str:
    """Return the accuracy of a baseline in percent, and its name."""
    return f"{percent(accuracy)} ({BASELINES.get(policy, policy).lower()})"


def save(table: pl.DataFrame, data: pl.DataFrame, paths: Sequence[Path]) -> None:
    """Write a table as .md or .tex and its data as .csv, according to the suffix of each path.

    Args:
        table: text.
        data: what the .csv holds, numbers unrounded.
        paths: files to write.
    """
    text, tex = render(table)
    texts = {".csv": data.write_csv(), ".md": text, ".tex": tex}
    for path in paths:
        with replacing(path) as temporary:
            temporary.write_text(texts[path.suffix], encoding="utf-8")
