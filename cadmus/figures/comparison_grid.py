"""Accuracy and most frequent prediction at the comparator over X and Y, with the training range."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Patch, Rectangle

from cadmus.evaluate.statistics.regions import predicted, training_range
from cadmus.evaluate.statistics.results import with_accuracy
from cadmus.figures import style

_NO_PROGRAM: dict[str, Any] = {"facecolor": "#DDDDDD", "linewidth": 0}
_DASHED: dict[str, Any] = {"ec": "black", "lw": 1.4, "ls": (0, (3, 2))}
_COLORS = {"<": style.BLUE, "=": "black", ">": "#E69F00", "other": "#F2B8D6"}  # differ in gray


def data(grid: pl.DataFrame) -> pl.DataFrame:
    """Return the pixels with accuracies and Wilson intervals."""
    return with_accuracy(predicted(grid))


def draw(grid: pl.DataFrame) -> Figure:
    """Draw the results of ``cadmus evaluate grid`` as heat maps."""
    square = training_range(grid)
    pixels = data(grid)
    figure = Figure(figsize=(style.PAGE, 4.15))
    panels = style.multiples(figure, 2, 2)
    accuracy, prediction = panels.flat
    image = heat_map(accuracy, pixels, pixels["accuracy"], square, vmin=0, vmax=1)
    accuracy.set_title("accuracy")
    codes = pixels["predicted"].replace_strict(list(_COLORS), range(4), return_dtype=pl.Float64)
    colors = ListedColormap(list(_COLORS.values()))
    heat_map(prediction, pixels, codes, square, cmap=colors, vmin=-0.5, vmax=3.5)
    prediction.set_title("most frequent prediction")
    names = {**{name: name for name in _COLORS}, "other": "another token, always wrong"}
    handles = [Patch(color=_COLORS[name], label=f"predicts {text}") for name, text in names.items()]
    explain(figure, panels, 2, image, square, handles)
    return figure


def explain(
    figure: Figure,
    panels: np.ndarray,
    count: int,
    image: AxesImage,
    square: tuple[int, int],
    handles: Sequence[Patch] = (),
) -> None:
    """Label the axes of ``count`` heat maps, and draw a color bar and a legend with the ``handles``.

    The panels have shape (rows, columns); the last ones may be empty.
    """
    # The lowest panel of each column: the last row may be incomplete.
    for axes in panels.flat[count - panels.shape[1] : count]:
        axes.set_xlabel("value of the first expression, X")
    for axes in panels[:, 0]:
        axes.set_ylabel("value of the second expression, Y")
    look = {"location": "bottom", "format": style.PERCENT, "shrink": 0.5, "aspect": 40, "pad": 0.02}
    bar = style.colorbar(figure, image, panels, **look)
    bar.set_label("accuracy of the next token")
    shown: list[Patch] = [*handles, _square(square, label="training range", **_DASHED)]
    shown.append(Patch(label="no test program", **_NO_PROGRAM))
    figure.legend(handles=shown, loc="outside upper center", ncols=len(shown), columnspacing=1)


def heat_map(
    axes: Axes, pixels: pl.DataFrame, values: pl.Series, square: tuple[int, int], **look: Any
) -> AxesImage:
    """Draw a value per pixel, with x to the right and y upwards, and the training range."""
    values_of_axes = pixels.select("x", "y").to_numpy()
    first, last = int(values_of_axes.min()), int(values_of_axes.max())
    cells = np.full((last - first + 1, last - first + 1), np.nan)
    cells[pixels["y"] - first, pixels["x"] - first] = values
    ends = (first - 0.5, last + 0.5)
    image = axes.imshow(cells, origin="lower", extent=(*ends, *ends), interpolation="nearest", **look)
    # The color of empty pixels is under the image, which is transparent there.
    axes.add_patch(_square((first, last), zorder=-1, fill=True, **_NO_PROGRAM))
    # A dashed black line on white is visible on dark and bright pixels.
    axes.add_patch(_square(square, ec="white", lw=2.2))
    axes.add_patch(_square(square, **_DASHED))
    sides = [side for side in (square[0] - 0.5, square[1] + 0.5) if first < side < last]
    for side in sides:
        for color, dashes in (("white", "-"), ("black", ":")):
            for draw_line in (axes.axhline, axes.axvline):
                draw_line(side, lw=0.8, zorder=0.5, color=color, ls=dashes)
    axes.spines[:].set_visible(False)
    return image


def _square(ends: tuple[int, int], **look: Any) -> Rectangle:
    first, last = ends
    side = last - first + 1
    return Rectangle((first - 0.5, first - 0.5), side, side, **{"fill": False, **look})
