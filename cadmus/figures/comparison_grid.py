"""Accuracy and most frequent prediction at the comparator over X and Y, with the training range."""

from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Patch, Rectangle

from cadmus.evaluate.intervals import as_text, percent
from cadmus.evaluate.regions import REGIONS, predicted, summary, training_range
from cadmus.evaluate.results import with_accuracy
from cadmus.figures import reported, style, tables
from cadmus.llm.outcomes import pixels

_NO_PROGRAM: dict[str, Any] = {"facecolor": "#DDDDDD", "linewidth": 0}
_COLORS = {"<": style.BLUE, "=": style.GREEN, ">": style.ORANGE, "other": style.GREY}
_COLUMNS_OF_PANELS = 3
_ROW = 0.14
"""Inches per row of text."""


def data(grid: pl.DataFrame, llm: pl.DataFrame | None = None) -> pl.DataFrame:
    """Return the pixels of Cadmus, then those of each LLM, with accuracies and Wilson intervals."""
    ours = with_accuracy(predicted(grid))
    if llm is None:
        return ours
    cadmus = ours.select(pl.lit("Cadmus").alias("model"), pl.lit("normal").alias("symbols"), pl.all())
    asked = with_accuracy(pixels(llm)).with_columns(pl.lit(True).alias("in_distribution"))
    return pl.concat([cadmus, asked], how="diagonal_relaxed")


def draw(grid: pl.DataFrame, llm: pl.DataFrame | None = None) -> Figure:
    """Draw the results of ``cadmus evaluate grid`` as heat maps, and the accuracy by region as text.

    The panels of Cadmus show the accuracy and the comparator predicted most often. Each pair of LLM and kind
    of symbols adds a panel over the values in its requests.
    """
    square = training_range(grid)
    ours = with_accuracy(predicted(grid))
    name = "" if llm is None else "Cadmus: "
    panels = [(f"{name}accuracy", ours), (f"{name}most frequent prediction", ours)]
    not_run = []
    asked = [] if llm is None else pixels(llm).partition_by("model", "symbols", maintain_order=True)
    for part in asked:
        name = f"{part['model'][0]}, {part['symbols'][0]} symbols"
        programs, correct = (int(part[count].sum()) for count in ("programs", "correct"))
        if programs:
            accuracy = f"{part['max_output_tokens'][0]:,} tokens: {percent(correct / programs)}"
            panels.append((f"{name}\n{accuracy}", with_accuracy(part)))
        else:
            not_run.append(name)
    lines = [*_regions(grid), *([f"not run: {name}"] for name in not_run)]
    columns = min(len(panels), _COLUMNS_OF_PANELS)
    rows = -(-len(panels) // columns)
    heights = [0.85 + (3.2 if columns == 2 else 2.5) * rows, _ROW * len(lines)]
    figure = Figure(figsize=(style.PAGE, sum(heights)))
    above, below = figure.subfigures(2, 1, squeeze=False, height_ratios=heights)[:, 0]
    axes_of_panels = above.subplots(rows, columns, squeeze=False)
    empty = False
    for number, (axes, (title, part)) in enumerate(zip(axes_of_panels.flat, panels, strict=False)):
        if number == 1:
            _predictions(axes, part)
        else:
            image = _accuracies(axes, part)
        _frame(axes, part, square)
        axes.set_title(title)
        first, last = _ends(part)
        empty |= part["accuracy"].has_nulls() or len(part) < (last - first + 1) ** 2
    for axes in axes_of_panels.flat[len(panels) :]:
        axes.set_axis_off()
    # The lowest panel of each column: the last row may be incomplete.
    for axes in axes_of_panels.flat[len(panels) - columns : len(panels)]:
        axes.set_xlabel("value of the first expression, X")
    for axes in axes_of_panels[:, 0]:
        axes.set_ylabel("value of the second expression, Y")
    bar = above.colorbar(
        image, ax=axes_of_panels, location="bottom", format=style.PERCENT, shrink=0.5, aspect=40, pad=0.02
    )
    bar.outline.set_visible(False)
    bar.set_label("accuracy of the next token")
    handles = [Patch(color=color) for color in _COLORS.values()]
    labels = [f"predicts {'another token' if name == 'other' else name}" for name in _COLORS]
    handles.append(_square(square, ec="black", lw=1.4, ls=(0, (3, 2))))
    labels.append("training range")
    if empty:
        handles.append(Patch(**_NO_PROGRAM))
        labels.append("no test program" if llm is None else "no test program or answer")
    above.legend(handles, labels, loc="outside upper center", ncols=len(labels), columnspacing=1.2)
    style.text_rows(below.subplots(), lines, (0.08, 0.42, 0.62, 0.82, 0.92))
    return figure


def _regions(grid: pl.DataFrame) -> list[list[str]]:
    """Return the lines of text: accuracy by region, of the best baseline and in the paper."""
    rows = [["Cadmus by region", "Pairs", "Accuracy", "Best baseline", "Paper"]]
    for row in summary(grid).filter(pl.col("programs") > 0).iter_rows(named=True):
        paper = reported.GRID.get(row["region"])
        accuracy = as_text(row["accuracy"], row["low"], row["high"])
        best = tables.baseline(row["best_baseline"], row["baseline"])
        cells = [REGIONS[row["region"]], f"{row['pairs']:,}", accuracy, best]
        rows.append([*cells, "" if paper is None else percent(paper)])
    return rows


def _accuracies(axes: Axes, pixels: pl.DataFrame) -> AxesImage:
    return axes.imshow(_square_of(pixels, pixels["accuracy"]), vmin=0, vmax=1, **_extent(pixels))


def _predictions(axes: Axes, pixels: pl.DataFrame) -> None:
    names = list(_COLORS)
    codes = pixels["predicted"].replace_strict(names, range(len(names)), return_dtype=pl.Float64)
    colors = ListedColormap(list(_COLORS.values()))
    axes.imshow(_square_of(pixels, codes), cmap=colors, vmin=-0.5, vmax=len(names) - 0.5, **_extent(pixels))


def _square_of(pixels: pl.DataFrame, values: pl.Series) -> np.ndarray:
    """Return ``values`` as an array with y as rows and x as columns; NaN where there is no pixel."""
    first, last = _ends(pixels)
    cells = np.full((last - first + 1, last - first + 1), np.nan)
    cells[pixels["y"] - first, pixels["x"] - first] = values
    return cells


def _ends(pixels: pl.DataFrame) -> tuple[int, int]:
    ends = pixels.select("x", "y").to_numpy()
    return int(ends.min()), int(ends.max())


def _extent(pixels: pl.DataFrame) -> dict[str, Any]:
    low, high = _ends(pixels)[0] - 0.5, _ends(pixels)[1] + 0.5
    return {"origin": "lower", "extent": (low, high, low, high), "interpolation": "nearest"}


def _frame(axes: Axes, pixels: pl.DataFrame, square: tuple[int, int]) -> None:
    """Draw the training range, and the color of empty pixels under the image, where it is transparent."""
    axes.add_patch(_square(_ends(pixels), zorder=-1, fill=True, **_NO_PROGRAM))
    # A dashed black line on white is visible on dark and bright pixels.
    axes.add_patch(_square(square, ec="white", lw=2.2))
    axes.add_patch(_square(square, ec="black", lw=1.4, ls=(0, (3, 2))))
    axes.spines[:].set_visible(False)


def _square(ends: tuple[int, int], **look: Any) -> Rectangle:
    first, last = ends
    side = last - first + 1
    return Rectangle((first - 0.5, first - 0.5), side, side, **{"fill": False, **look})
