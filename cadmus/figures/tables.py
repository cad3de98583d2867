"""Tables as Markdown, LaTeX and CSV."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from cadmus.common.files import replacing

_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "→": r"$\rightarrow$",
        "·": r"$\cdot$",
        "✓": r"$\checkmark$",
        "–": "--",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        "[": "{[}",
        "]": "{]}",
        **{symbol: f"\\{symbol}" for symbol in "&%$#_{}"},
    }
)


def render(table: pl.DataFrame) -> tuple[str, str]:
    """A table of strings as Markdown and as a LaTeX ``tabular`` with booktabs rules.

    The columns' names are the head.  What a column holds between backticks is code in both.
    """
    rows = [list(table.columns), *map(list, table.rows())]
    markdown = [f"| {' | '.join(map(_markdown, row))} |" for row in rows]
    markdown.insert(1, f"|{' --- |' * table.width}")
    latex = [rf"{' & '.join(map(_latex, row))} \\" for row in rows]
    latex = [
        rf"\begin{{tabular}}{{{'l' * table.width}}}",
        r"\toprule",
        latex[0],
        r"\midrule",
        *latex[1:],
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(markdown) + "\n", "\n".join(latex) + "\n"


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Rows of texts as columns of a Markdown block of text, the first one their head.

    For programs: an instruction may be anything that Markdown or a table reads.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join(["```text", *(line.rstrip() for line in lines), "```"])


def save(table: pl.DataFrame, paths: Sequence[Path]) -> None:
    """Write a table, in the format that each path's suffix names.

    Raises:
        InputError: a file cannot be written.
    """
    markdown, latex = render(table)
    texts = {".csv": table.write_csv(), ".md": markdown, ".tex": latex}
    for path in paths:
        with replacing(path) as temporary:
            temporary.write_text(texts[path.suffix], encoding="utf-8")


def _markdown(cell: str) -> str:
    if cell.startswith("`"):
        return cell.replace("|", "\\|")
    return "".join(f"\\{symbol}" if symbol in "\\|<>*_`" else symbol for symbol in cell)


def _latex(cell: str) -> str:
    if cell.startswith("`"):
        return rf"\texttt{{{cell.strip('`').translate(_LATEX)}}}"
    return cell.translate(_LATEX)
