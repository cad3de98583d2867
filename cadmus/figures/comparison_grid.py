"""Accuracy of the predicted comparator over X and Y, with the in-distribution square."""

from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Patch, Rectangle

from cadmus.evaluate.intervals import as_text
from cadmus.evaluate.regions import COLUMNS as GRID
from cadmus.evaluate.regions import summary, training_range
from cadmus.evaluate.results import with_accuracy
from cadmus.figures import style
from cadmus.llm.outcomes import COLUMNS as ANSWERS
from cadmus.llm.outcomes import pixels

_NO_PROGRAM: dict[str, Any] = {
    "facecolor": "#D9D9D9",
    "edgecolor": "#999999",
    "linewidth": 0,
    "hatch": "//////",
}
_COLUMNS_OF_PANELS = 3

COLUMNS = (GRID, ANSWERS)


def data(grid: pl.DataFrame, llm: pl.DataFrame | None = None) -> pl.DataFrame:
    """Return the pixels of Cadmus, then those of each LLM, with accuracies and intervals."""
    if llm is None:
        return with_accuracy(grid)
    cadmus = grid.select(pl.lit("Cadmus").alias("model"), pl.lit("normal").alias("symbols"), pl.all())
    asked = pixels(llm).with_columns(pl.lit(True).alias("in_distribution"))
    return with_accuracy(pl.concat([cadmus, asked], how="diagonal_relaxed"))


def draw(grid: pl.DataFrame, llm: pl.DataFrame | None = None) -> Figure:
    """Draw the results of ``cadmus evaluate grid`` as a heat map.

    Each pair of LLM and kind of symbols adds a panel over the values in its requests.
    """
    panels = [(None if llm is None else "Cadmus", with_accuracy(grid))]
    not_run = []
    asked = [] if llm is None else pixels(llm).partition_by("model", "symbols", maintain_order=True)
    for part in asked:
        name = f"{part['model'][0]}, {part['symbols'][0]} symbols"
        programs, correct = (int(part[count].sum()) for count in ("programs", "correct"))
        if programs:
            limit = part["max_output_tokens"][0]
            accuracy = f"{limit:,} tokens: {100 * correct / programs:.1f}%"
            panels.append((f"{name}\n{accuracy}", with_accuracy(part)))
        else:
            not_run.append(name)
    columns = min(len(panels), _COLUMNS_OF_PANELS)
    rows = -(-len(panels) // columns)
    size = (style.COLUMN, 3.25) if len(panels) == 1 else (style.PAGE, 0.9 + 2.6 * rows)
    figure = Figure(figsize=size)
    axes_of_panels = figure.subplots(rows, columns, squeeze=False)
    square = training_range(grid)
    empty = False
    for axes, (title, part) in zip(axes_of_panels.flat, panels, strict=False):
        image, gaps = _map(axes, part, square)
        empty |= gaps
        if title and len(panels) > 1:
            axes.set_title(title)
    for axes in axes_of_panels.flat[len(panels) :]:
        axes.set_axis_off()
    # The lowest panel of each column: the last row may be incomplete.
    for axes in axes_of_panels.flat[max(0, len(panels) - columns) : len(panels)]:
        axes.set_xlabel("X")
    for axes in axes_of_panels[:, 0]:
        axes.set_ylabel("Y")
    bar = figure.colorbar(image, ax=axes_of_panels, format=style.PERCENT, shrink=0.8, pad=0.02)
    bar.outline.set_visible(False)
    bar.set_label("accuracy of the next token")
    handles: list[Patch] = [_square(square, ec="black", lw=1.4, ls=(0, (3, 2)))]
    labels = ["in distribution"]
    if empty:
        handles.append(Patch(**_NO_PROGRAM))
        labels.append("no test program" if len(panels) == 1 else "no test program, or no answer")
    figure.legend(handles, labels, loc="outside upper center", ncols=2)
    names = {
        "in_distribution": "in distribution",
        "out_of_distribution": "out of distribution",
        "out_of_distribution_diagonal": "out of distribution, X = Y",
    }
    lines = [
        f"{names[row['region']]}: {as_text(row['accuracy'], row['low'], row['high'])}"
        for row in summary(grid).iter_rows(named=True)
    ]
    if len(panels) > 1:
        lines[0] = f"Cadmus {lines[0]}"
    lines += [f"not run: {name}" for name in not_run]
    figure.supxlabel("\n".join(lines), fontsize=7)
    return figure


def _map(axes: Axes, pixels: pl.DataFrame, square: tuple[int, int]) -> tuple[AxesImage, bool]:
    """Draw one panel; return the image, and True if pixels are empty."""
    x = pixels["x"].to_numpy()
    first, last = int(x.min()), int(x.max())
    accuracy = np.full((last - first + 1, last - first + 1), np.nan)
    accuracy[pixels["y"] - first, pixels["x"] - first] = pixels["accuracy"]
    low, high = first - 0.5, last + 0.5
    # Under the image, whose empty pixels are transparent.
    axes.add_patch(Rectangle((low, low), high - low, high - low, zorder=-1, **_NO_PROGRAM))
    image = axes.imshow(
        accuracy, origin="lower", extent=(low, high, low, high), vmin=0, vmax=1, interpolation="nearest"
    )
    # A dashed black line on white is visible on dark and bright pixels.
    axes.add_patch(_square(square, ec="white", lw=2.2))
    axes.add_patch(_square(square, ec="black", lw=1.4, ls=(0, (3, 2))))
    axes.spines[:].set_visible(False)
    return image, bool(np.isnan(accuracy).any())


def _square(ends: tuple[int, int], **line: Any) -> Rectangle:
    first, last = ends
    return Rectangle((first - 0.5, first - 0.5), last - first + 1, last - first + 1, fill=False, **line)
