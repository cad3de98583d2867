"""Style, sizes and reproducible files of all figures."""

from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path

import matplotlib.style
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter, StrMethodFormatter

from cadmus.store import replacing

STYLE = Path(__file__).with_name("cadmus.mplstyle")
COLUMN = 3.4
"""Column width in inches."""
PAGE = 7.0
"""Page width in inches."""
BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"
GREY = "#666666"
PERCENT = PercentFormatter(1, decimals=0)
THOUSANDS = StrMethodFormatter("{x:,.0f}")

_METADATA = {".pdf": {"CreationDate": None, "Producer": None, "Creator": None}, ".png": {"Software": None}}


def styled(draw: Callable[..., Figure]) -> Callable[..., Figure]:
    """Decorate ``draw`` to use the style file instead of the user's settings."""

    @wraps(draw)
    def wrapped(*arguments: object) -> Figure:
        with matplotlib.style.context(["default", STYLE]):
            return draw(*arguments)

    return wrapped


def save(figure: Figure, paths: Sequence[Path]) -> None:
    """Write a figure in the format of each path's suffix; equal figures give equal bytes."""
    with matplotlib.style.context(["default", STYLE]):
        for path in paths:
            with replacing(path) as temporary:
                figure.savefig(temporary, metadata=_METADATA[path.suffix])


def line(
    axes: Axes,
    rows: pl.DataFrame,
    x: str,
    y: str,
    *,
    color: str,
    marker: str,
    label: str,
    style: str = "-",
    band: bool = True,
) -> list[Line2D]:
    """Plot column ``y`` over column ``x``, with the columns low and high as a band; return the line."""
    if band:
        axes.fill_between(rows[x], rows["low"], rows["high"], color=color, alpha=0.2, lw=0)
    return axes.plot(rows[x], rows[y], color=color, marker=marker, ls=style, label=label)


def not_tested(axes: Axes) -> None:
    """Label empty axes."""
    axes.text(0.5, 0.5, "not tested", transform=axes.transAxes, ha="center", color=GREY)


def text_rows(axes: Axes, rows: Sequence[Sequence[str]], places: Sequence[float]) -> None:
    """Write aligned columns of text into empty axes, one line per row; the first row is the header.

    Args:
        axes: filled from top to bottom; 0.14 inches a row are enough.
        rows: cells; rows may be short.
        places: left edge of the first column and right edges of the others, from 0 to 1.
    """
    axes.set_axis_off()
    for number, cells in enumerate(rows):
        for column, (cell, place) in enumerate(zip(cells, places, strict=False)):
            axes.text(
                place,
                1 - (number + 0.5) / len(rows),
                cell,
                transform=axes.transAxes,
                ha="right" if column else "left",
                va="center",
                fontsize=7,
                weight="normal" if number else "bold",
            )


def largest(column: pl.Series) -> int:
    """Return the largest integer of a non-empty column."""
    return int(column.to_numpy().max())


def layer_names(layers: int, step: int = 1) -> dict[int, str]:
    """Return the labels of every ``step``-th layer: the embedding (0) and the blocks."""
    return {layer: f"block {layer}" if layer else "embedding" for layer in range(0, layers, step)}


def percent_axis(axes: Axes, low: float = 0.0) -> None:
    """Format the vertical axis as percentages from ``low`` to 1."""
    axes.set_ylim(low, 1.02)
    axes.yaxis.set_major_formatter(PERCENT)
    axes.grid(True, axis="y")
    axes.set_axisbelow(True)
