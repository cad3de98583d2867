"""Comparison grids of a study, and the states that answers follow from in that of numbers.

They are drawn from the runs of a study in docs/findings, which must be finished.
"""

from pathlib import Path

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from cadmus import Cadmus, experiments
from cadmus.config.study import StudyRuns, load_study
from cadmus.evaluate.comparisons import grid_programs
from cadmus.figures import style
from cadmus.programs import Programs
from cadmus.store import read_results
from cadmus.templates.expressions import HALF

STUDY = "numbers"
_STATES = ["classes alone", "no exchange", "large differences labeled"]
_PANELS = 4
_PROGRAMS = 4_000


def draw(results: Path, study: str, root: Path) -> None:
    """Write grids.png of a study, from the runs in the directory ``results``; of numbers also states.png."""
    output = root / f"docs/findings/{study}"
    runs = load_study(output / "study.yaml")
    style.save(_grids(runs, results), [output / "grids.png"])
    if study == STUDY:
        style.save(_states(runs, results), [output / "states.png"])


@style.styled
def _grids(study: StudyRuns, results: Path) -> Figure:
    """Accuracy for every pair of values, over seeds, and the pairs that are compared in training."""
    grids: dict[str, pl.DataFrame] = {}
    for run in study.runs:
        path = results / run.evaluation / "experiments/grid.parquet"
        grid = read_results(path, experiments.table("grid"))[0].filter(~pl.col("balanced"))
        grids[run.variant] = pl.concat([*([grids[run.variant]] if run.variant in grids else []), grid])
    figure = Figure(figsize=(style.PAGE, 0.9 + 1.75 * -(-len(grids) // _PANELS)))
    axes = style.multiples(figure, len(grids), _PANELS, sharex=True, sharey=True)
    for each, (variant, grid) in zip(axes.flat, grids.items(), strict=False):
        sums = grid.group_by("x", "y").agg(pl.sum("programs", "correct"), pl.first("in_distribution"))
        x, y, programs, correct, trained = (sums[name].to_numpy() for name in sums.columns)
        values = np.arange(x.min(), x.max() + 1)
        image, region = np.full((2, len(values), len(values)), np.nan)
        image[y - values[0], x - values[0]] = correct / np.where(programs > 0, programs, np.nan)
        region[y - values[0], x - values[0]] = trained
        extent = (values[0] - 0.5, values[-1] + 0.5) * 2
        shown = each.imshow(image, origin="lower", extent=extent, vmin=0, vmax=1, interpolation="nearest")
        # A dashed black line on white is visible on dark and bright pixels.
        for color, width, dashes in (("white", 1.8, "-"), ("black", 1, "--")):
            each.contour(values, values, region, [0.5], colors=color, linewidths=width, linestyles=dashes)
        each.set_title(variant.replace(", ", ",\n"), fontsize=6)
        each.set(xticks=(ticks := [-50, -25, 0, 25, 50]), yticks=ticks)
    for each in axes.flat[max(0, len(grids) - _PANELS) : len(grids)]:
        each.tick_params(labelbottom=True)
    figure.supxlabel("value of the first expression, X", fontsize=8)
    figure.supylabel("value of the second expression, Y", fontsize=8)
    look = {"format": style.PERCENT, "shrink": 0.5, "aspect": 40, "pad": 0.02}
    style.colorbar(figure, shown, axes, **look).set_label("accuracy of the next token")
    return figure


@style.styled
def _states(study: StudyRuns, results: Path) -> Figure:
    """States after the first expression and before the comparator, on the main axes of those inside."""
    figure = Figure(figsize=(style.PAGE, 4.2))
    axes = figure.subplots(2, len(_STATES), squeeze=False)
    for column, variant in zip(axes.T, _STATES, strict=True):
        run = next(run for run in study.runs if run.variant == variant)
        model = Cadmus.load(results / run.training / "model")
        x, y, programs, pair = grid_programs(run.config)
        chosen = np.random.default_rng(0).permutation(len(programs))[:_PROGRAMS]
        x, y = x[pair[chosen]], y[pair[chosen]]
        prompts: Programs = programs.take(chosen).prefixes(np.full(len(chosen), 2 * HALF))
        states = [part for _, part in model.hidden_states(prompts)]
        layers = np.concatenate(states, axis=1)
        values = run.config.dataset.values
        outside = (np.minimum(x, y) < values.low) | (np.maximum(x, y) > values.high)
        places = [
            (run.config.model.layers - 2, HALF - 1, x, "value of the first expression"),
            (run.config.model.layers - 1, 2 * HALF - 1, x - y, "difference"),
        ]
        for each, (layer, token, shown, _) in zip(column, places, strict=True):
            found = layers[layer, :, token]
            found = found / np.sqrt((found**2).mean(1, keepdims=True))
            mean = found[~outside].mean(0)
            main = np.linalg.svd(found[~outside] - mean, full_matrices=False)[2][:2]
            points = (found - mean) @ main.T
            for part, look in ((outside, {"s": 2}), (~outside, {"s": 5, "ec": "black", "lw": 0.2})):
                dots = each.scatter(*points[part].T, c=shown[part], vmin=-60, vmax=60, **look)
            each.set(xticks=[], yticks=[])
        column[0].set_title(variant)
        column[1].set_xlabel("first principal axis")
    for row, (*_, name) in zip(axes, places, strict=True):
        row[0].set_ylabel("second principal axis")
        figure.colorbar(dots, ax=row, label=name, shrink=0.8)
    return figure
