"""Tables as text for the terminal and as Markdown, and counts with their noun."""

import re
from collections.abc import Iterable, Sequence

from cadmus.errors import printable

Row = Sequence[str]

# Not every reader of Markdown takes a backslash before the brackets of HTML.
_MARKDOWN = str.maketrans(
    {"<": "&lt;", ">": "&gt;", "&": "&amp;", **{symbol: f"\\{symbol}" for symbol in "\\|*_`"}}
)


def plain(header: Row, rows: Iterable[Row], *, numbers: bool = False) -> str:
    """Return aligned columns for the terminal, control characters escaped.

    With ``numbers``, all columns but the first one are aligned on the right.
    """
    lines = [list(map(printable, line)) for line in (header, *rows)]
    width, *widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    align = str.rjust if numbers else str.ljust
    padded = ([first.ljust(width), *map(align, others, widths)] for first, *others in lines)
    return "\n".join("  ".join(cells).rstrip() for cells in padded)


def markdown(header: Row, rows: Iterable[Row]) -> str:
    """Return a Markdown table, ending in a newline; the cells are Markdown, see :func:`escape`."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, such as ``1 seed`` or ``3 seeds``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def code(text: str) -> str:
    """Return a Markdown cell with ``text`` as code; a bar needs escaping even there."""
    return f"`{text}`".replace("|", "\\|")


def escape(text: str) -> str:
    """Return Markdown for plain text; if it starts with a backtick, the parts between backticks are code."""
    parts = re.split("`([^`]*)`", text) if text.startswith("`") else [text]
    return "".join(code(part) if index % 2 else part.translate(_MARKDOWN) for index, part in enumerate(parts))
