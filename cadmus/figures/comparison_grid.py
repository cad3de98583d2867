"""Accuracy and most frequent prediction at the comparator over X and Y, with the training range."""

from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Patch, Rectangle

from cadmus.evaluate.intervals import percent
from cadmus.evaluate.regions import predicted, training_range
from cadmus.evaluate.results import with_accuracy
from cadmus.figures import style
from cadmus.llm.outcomes import pixels

_NO_PROGRAM: dict[str, Any] = {"facecolor": "#DDDDDD", "linewidth": 0}
_DASHED: dict[str, Any] = {"ec": "black", "lw": 1.4, "ls": (0, (3, 2))}
_COLORS = {"<": style.BLUE, "=": "black", ">": "#E69F00", "other": "#F2B8D6"}  # differ in gray


def data(grid: pl.DataFrame, llm: pl.DataFrame | None = None) -> pl.DataFrame:
    """Return the pixels of Cadmus, then those of each LLM, with accuracies and Wilson intervals."""
    ours = with_accuracy(predicted(grid))
    if llm is None:
        return ours
    cadmus = ours.select(pl.lit("Cadmus").alias("model"), pl.lit("normal").alias("alphabet"), pl.all())
    llms = with_accuracy(pixels(llm)).with_columns(in_distribution=True, balanced=False)
    return pl.concat([cadmus, llms], how="diagonal_relaxed")


def draw(grid: pl.DataFrame, llm: pl.DataFrame | None = None) -> Figure:
    """Draw the results of ``cadmus evaluate grid`` as heat maps, and one per LLM and alphabet."""
    square = training_range(grid)
    ours = with_accuracy(predicted(grid))
    name = "" if llm is None else "Cadmus: "
    panels = [(f"{name}accuracy", ours), (f"{name}most frequent prediction", ours)]
    not_run = []
    llms = [] if llm is None else pixels(llm).partition_by("model", "alphabet", maintain_order=True)
    for part in llms:
        name = f"{part['model'][0]}, {part['alphabet'][0]} symbols"
        programs, correct = (int(part[count].sum()) for count in ("programs", "correct"))
        if programs:
            accuracy = f"{part['max_output_tokens'][0]:,} tokens: {percent(correct / programs)}"
            panels.append((f"{name}\n{accuracy}", with_accuracy(part)))
        else:
            not_run.append(name)
    columns = min(len(panels), 3)
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(style.PAGE, 0.95 + (3.2 if columns == 2 else 2.5) * rows))
    axes_of_panels = style.multiples(figure, len(panels), columns)
    for number, (axes, (title, part)) in enumerate(zip(axes_of_panels.flat, panels, strict=False)):
        # The second panel shows predictions, which are names; all others show accuracies.
        if number == 1:
            codes = part["predicted"].replace_strict(list(_COLORS), range(4), return_dtype=pl.Float64)
            _map(axes, part, codes, square, cmap=ListedColormap(list(_COLORS.values())), vmin=-0.5, vmax=3.5)
        else:
            image = _map(axes, part, part["accuracy"], square, vmin=0, vmax=1)
        axes.set_title(title)
    # The lowest panel of each column: the last row may be incomplete.
    for axes in axes_of_panels.flat[len(panels) - columns : len(panels)]:
        axes.set_xlabel("value of the first expression, X")
    for axes in axes_of_panels[:, 0]:
        axes.set_ylabel("value of the second expression, Y")
    look = {"location": "bottom", "format": style.PERCENT, "shrink": 0.5, "aspect": 40, "pad": 0.02}
    bar = style.colorbar(figure, image, axes_of_panels, **look)
    bar.set_label("accuracy of the next token")
    names = {**{name: name for name in _COLORS}, "other": "another token, always wrong"}
    handles = [Patch(color=_COLORS[name], label=f"predicts {text}") for name, text in names.items()]
    handles.append(_square(square, label="training range", **_DASHED))
    handles.append(Patch(label="no test program", **_NO_PROGRAM))
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), columnspacing=1)
    if not_run:
        figure.supxlabel(f"not run: {'; '.join(not_run)}", fontsize=7)
    return figure


def _map(
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
