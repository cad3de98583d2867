"""Style, sizes, reproducible files and the shared parts of all figures."""

from collections.abc import Iterable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib.style
import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colorbar import Colorbar
from matplotlib.figure import Figure, FigureBase
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter, PercentFormatter
from PIL import Image

from cadmus.store import replacing

STYLE = Path(__file__).with_name("cadmus.mplstyle")
COLUMN = 3.4
"""Column width in inches."""
PAGE = 7.0
"""Page width in inches."""
COLORS = BLUE, ORANGE, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
GRAY = "#666666"
PERCENT = PercentFormatter(1, decimals=0)
styled = matplotlib.style.context(["default", STYLE])
"""Decorates a function that draws: it uses the style file instead of the user's settings."""

_PDF_METADATA = {"CreationDate": None, "Producer": None, "Creator": None}


@styled
def save(figure: Figure, paths: Sequence[Path]) -> None:
    """Write a figure in the format of each path's suffix, PNG or PDF; equal figures give equal bytes."""
    for path in paths:
        with replacing(path) as temporary:
            if path.suffix == ".png":
                buffer = BytesIO()
                figure.savefig(buffer, format="png")
                with Image.open(buffer) as image:
                    # A palette of 256 colors takes a third of the space.
                    drawn = image.convert("RGB").quantize(dither=Image.Dither.NONE)
                    drawn.save(temporary, format="png", optimize=True, dpi=image.info.get("dpi"))
            else:
                figure.savefig(temporary, format="pdf", metadata=_PDF_METADATA)


def multiples(figure: FigureBase, count: int, columns: int, **shared: Any) -> np.ndarray:
    """Return axes for ``count`` panels in rows of ``columns``: shape (rows, columns), the last ones empty."""
    rows = max(1, -(-count // columns))
    grid = figure.subplots(rows, columns, squeeze=False, **shared)
    for axes in grid.flat[count:]:
        axes.set_axis_off()
    return grid


def legend(figure: FigureBase, panels: Iterable[Axes], **look: Any) -> None:
    """Draw one legend above the panels, which lists each label once."""
    handles: dict[str, Any] = {}
    for axes in panels:
        handles |= {label: handle for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside upper center", **look)


def colorbar(figure: FigureBase, image: ScalarMappable, panels: Any, **look: Any) -> Colorbar:
    """Draw a color bar without a frame."""
    bar = figure.colorbar(image, ax=panels, **look)
    bar.outline.set_visible(False)
    return bar


def line(
    axes: Axes, rows: pl.DataFrame, x: str, y: str, *, color: str, band: bool = True, **look: Any
) -> list[Line2D]:
    """Plot column ``y`` over column ``x``, with the columns low and high as a band; return the line."""
    if band:
        axes.fill_between(rows[x], rows["low"], rows["high"], color=color, alpha=0.2, lw=0)
    return axes.plot(rows[x], rows[y], color=color, **look)


def not_tested(axes: Axes) -> None:
    """Label empty axes."""
    axes.text(0.5, 0.5, "not tested", transform=axes.transAxes, ha="center", color=GRAY)


def largest(column: pl.Series) -> int:
    """Return the largest integer of a non-empty column."""
    return int(column.to_numpy().max())


def percent_axis(axes: Axes) -> None:
    """Format the vertical axis as percentages from 0 to 1."""
    # Room for the markers at 100%.
    axes.set_ylim(0, 1.05)
    axes.yaxis.set_major_formatter(PERCENT)
    axes.grid(True, axis="y")
    axes.set_axisbelow(True)


def log_axis(axes: Axes) -> None:
    """Make the horizontal axis logarithmic, with ticks at 1 and 3."""
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0e}".replace("+0", "").replace("+", ""))
    axes.xaxis.set_minor_formatter(NullFormatter())
