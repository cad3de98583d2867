"""Accuracy of Cadmus and of large language models over X and Y, with the training range of Cadmus."""

import polars as pl
from matplotlib.figure import Figure

from cadmus.evaluate.statistics.intervals import percent
from cadmus.evaluate.statistics.regions import training_range
from cadmus.evaluate.statistics.results import with_accuracy
from cadmus.figures import comparison_grid, style
from cadmus_llm.outcomes import pixels


def data(grid: pl.DataFrame, llm: pl.DataFrame) -> pl.DataFrame:
    """Return the pixels of Cadmus, then those of each LLM, with accuracies and Wilson intervals."""
    cadmus = comparison_grid.data(grid)
    cadmus = cadmus.select(pl.lit("Cadmus").alias("model"), pl.lit("normal").alias("alphabet"), pl.all())
    llms = with_accuracy(pixels(llm)).with_columns(in_distribution=True, balanced=False)
    return pl.concat([cadmus, llms], how="diagonal_relaxed")


def draw(grid: pl.DataFrame, llm: pl.DataFrame) -> Figure:
    """Draw a heat map of Cadmus, and one per LLM and alphabet; those without an answer are named."""
    square = training_range(grid)
    panels, not_run = [("Cadmus", comparison_grid.data(grid))], []
    for part in pixels(llm).partition_by("model", "alphabet", maintain_order=True):
        name = f"{part['model'][0]}, {part['alphabet'][0]} symbols"
        programs, correct = (int(part[count].sum()) for count in ("programs", "correct"))
        if programs:
            accuracy = f"{part['max_output_tokens'][0]:,} tokens: {percent(correct / programs)}"
            panels.append((f"{name}\n{accuracy}", with_accuracy(part)))
        else:
            not_run.append(name)
    columns = min(len(panels), 3)
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(style.PAGE, 0.95 + (2.5 if columns == 3 else 3.2) * rows))
    axes_of_panels = style.multiples(figure, len(panels), columns)
    for axes, (title, part) in zip(axes_of_panels.flat, panels, strict=False):
        image = comparison_grid.heat_map(axes, part, part["accuracy"], square, vmin=0, vmax=1)
        axes.set_title(title)
    comparison_grid.explain(figure, axes_of_panels, len(panels), image, square)
    if not_run:
        figure.supxlabel(f"not run: {'; '.join(not_run)}", fontsize=7)
    return figure
