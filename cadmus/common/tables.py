"""Tables as text for the terminal, as Markdown and as LaTeX, all rendered by ``tabulate``."""

from collections.abc import Iterable, Sequence

from tabulate import DataRow, Line, TableFormat, tabulate

Row = Sequence[str]

# tabulate's own formats fill cells with spaces, so that one long cell changes every line of a document,
# and its `latex_booktabs` would escape the \texttt of code.
_MARKDOWN = TableFormat(
    lineabove=None,
    linebelowheader=lambda widths, _: f"|{' --- |' * len(widths)}",
    linebetweenrows=None,
    linebelow=None,
    headerrow=DataRow("|", "|", "|"),
    datarow=DataRow("|", "|", "|"),
    padding=1,
    with_header_hide=None,
)
_BOOKTABS = TableFormat(
    lineabove=lambda widths, _: f"\\begin{{tabular}}{{{'l' * len(widths)}}}\n\\toprule",
    linebelowheader=Line("\\midrule", "", "", ""),
    linebetweenrows=None,
    linebelow=Line("\\bottomrule\n\\end{tabular}", "", "", ""),
    headerrow=DataRow("", "&", r"\\"),
    datarow=DataRow("", "&", r"\\"),
    padding=1,
    with_header_hide=None,
)
_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "→": r"$\rightarrow$",
        "≠": r"$\neq$",
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


def plain(header: Row, rows: Iterable[Row], *, numbers: bool = False) -> str:
    """Return aligned columns for the terminal.

    Args:
        header: column titles.
        rows: cells.
        numbers: align all columns but the first one on the right.
    """
    align = ["left", *["right" if numbers else "left"] * (len(header) - 1)]
    # As headers, tabulate would fill the titles with two more spaces.
    text = tabulate([header, *rows], tablefmt="plain", colalign=align, disable_numparse=True)
    return "\n".join(line.rstrip() for line in text.splitlines())


def markdown(header: Row, rows: Iterable[Row]) -> str:
    """Return a Markdown table, ending in a newline; the cells are Markdown, see :func:`escape`."""
    return _document(header, rows, _MARKDOWN)


def latex(header: Row, rows: Iterable[Row]) -> str:
    """Return a LaTeX ``tabular`` with booktabs rules, ending in a newline.

    Cells are plain text, or code if they start with a backtick.
    """
    cells = [[_latex(cell) for cell in row] for row in rows]
    return _document([_latex(cell) for cell in header], cells, _BOOKTABS)


def code(text: str) -> str:
    """Return a Markdown cell with ``text`` as code; a bar needs escaping even there."""
    return f"`{text}`".replace("|", "\\|")


def escape(text: str) -> str:
    """Return a Markdown cell for plain text, or for code if ``text`` starts with a backtick."""
    if text.startswith("`"):
        return text.replace("|", "\\|")
    return "".join(f"\\{symbol}" if symbol in "\\|<>*_`" else symbol for symbol in text)


def _latex(cell: str) -> str:
    if cell.startswith("`"):
        return rf"\texttt{{{cell.strip('`').translate(_LATEX)}}}"
    return cell.translate(_LATEX)


def _document(header: Row, rows: Iterable[Row], style: TableFormat) -> str:
    return tabulate(rows, header, style, stralign=None, disable_numparse=True) + "\n"
