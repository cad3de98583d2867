"""What all figures share: the style, sizes, and files that come out the same every time."""

from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path

import matplotlib.style
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from cadmus.common.files import replacing

STYLE = Path(__file__).with_name("cadmus.mplstyle")
COLUMN = 3.4
"""Width of a column, in inches."""
PAGE = 7.0
"""Width of a page, in inches."""
BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"
GREY = "#666666"
PERCENT = PercentFormatter(1, decimals=0, symbol=" %")

_METADATA = {".pdf": {"CreationDate": None, "Producer": None, "Creator": None}, ".png": {"Software": None}}


def styled(draw: Callable[..., Figure]) -> Callable[..., Figure]:
    """Draw under the style file, whatever the user's own settings are."""

    @wraps(draw)
    def wrapped(*arguments: object) -> Figure:
        with matplotlib.style.context(["default", STYLE]):
            return draw(*arguments)

    return wrapped


def save(figure: Figure, paths: Sequence[Path]) -> None:
    """Write a figure, in the format that each path's suffix names; equal figures give equal bytes.

    Raises:
        InputError: a file cannot be written.
    """
    with matplotlib.style.context(["default", STYLE]):
        for path in paths:
            with replacing(path) as temporary:
                figure.savefig(temporary, metadata=_METADATA[path.suffix])


def line(axes: Axes, rows: pl.DataFrame, x: str, y: str, *, color: str, marker: str, label: str) -> None:
    """A column over another, with its interval, the columns low and high, as a band."""
    axes.fill_between(rows[x], rows["low"], rows["high"], color=color, alpha=0.2, lw=0)
    axes.plot(rows[x], rows[y], color=color, marker=marker, label=label)


def not_tested(axes: Axes) -> None:
    """Say that there is nothing to draw."""
    axes.text(0.5, 0.5, "not tested", transform=axes.transAxes, ha="center", color=GREY)


def largest(column: pl.Series) -> int:
    """The largest of integers, of which there is one at least."""
    return int(column.to_numpy().max())


def layer_names(layers: int, step: int = 1) -> dict[int, str]:
    """What the outputs of layers are called, every ``step``-th of ``layers``."""
    return {layer: f"block {layer}" if layer else "embedding" for layer in range(0, layers, step)}


def percent_axis(axes: Axes, low: float = 0.0) -> None:
    """Accuracy from ``low`` to 1 on the vertical axis, in percent."""
    axes.set_ylim(low, 1.02)
    axes.yaxis.set_major_formatter(PERCENT)
    axes.grid(True, axis="y")
    axes.set_axisbelow(True)
