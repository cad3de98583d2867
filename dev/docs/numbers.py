"""The figures of the finding about numbers: comparison grids, and the states that answers follow from.

Both are drawn from the runs of the study in config/studies/numbers.yaml, which must be finished.
"""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from cadmus import Cadmus, experiments
from cadmus.config.study import StudyRuns, load_study
from cadmus.evaluate.comparisons import HALF, grid_programs
from cadmus.evaluate.regions import training_range
from cadmus.evaluate.results import read_results
from cadmus.figures import style
from cadmus.programs import Programs

STUDY = "numbers"
_STATES = ["classes alone", "no exchange", "large differences labelled"]
_PANELS = 4
_PROGRAMS = 4_000
_DASHED: dict[str, Any] = {"fill": False, "ec": "black", "lw": 1, "ls": (0, (3, 2))}


def draw(results: Path, output: Path) -> None:
    """Write grids.png and states.png to ``output``, from the runs in the directory ``results``."""
    study = load_study(Path(f"config/studies/{STUDY}.yaml"))
    for name, figure in (("grids", _grids(study, results)), ("states", _states(study, results))):
        style.save(figure, [output / f"{name}.png"])


@style.styled
def _grids(study: StudyRuns, results: Path) -> Figure:
    """Accuracy for every pair of values, over seeds, and the pairs that are compared in training."""
    grids: dict[str, pl.DataFrame] = {}
    for run in study.runs:
        path = results / run.evaluation / "experiments/grid.parquet"
        grid = read_results(path, experiments.columns("grid"))[0].filter(~pl.col("balanced"))
        grids[run.variant] = pl.concat([*([grids[run.variant]] if run.variant in grids else []), grid])
    rows = -(-len(grids) // _PANELS)
    figure = Figure(figsize=(style.PAGE, 1.9 * rows + 0.4))
    axes = style.multiples(figure, len(grids), _PANELS)
    for each, (variant, grid) in zip(axes.flat, grids.items(), strict=False):
        sums = grid.group_by("x", "y").agg(pl.col("programs", "correct").sum())
        x, y, programs, correct = (sums[name].to_numpy() for name in ("x", "y", "programs", "correct"))
        first, last = x.min(), x.max()
        image = np.full((last - first + 1,) * 2, np.nan)
        tested = programs > 0
        image[(y - first)[tested], (x - first)[tested]] = correct[tested] / programs[tested]
        extent = (first - 0.5, last + 0.5) * 2
        shown = each.imshow(image, origin="lower", extent=extent, vmin=0, vmax=1, interpolation="nearest")
        low, high = training_range(grid)
        each.add_patch(Rectangle((low - 0.5, low - 0.5), high - low + 1, high - low + 1, **_DASHED))
        each.set_title(variant.replace("labelled, ", "labelled,\n"), fontsize=6)
    style.colorbar(
        figure, shown, axes, location="bottom", format=style.PERCENT, shrink=0.5, aspect=40, pad=0.02
    )
    return figure


@style.styled
def _states(study: StudyRuns, results: Path) -> Figure:
    """States after the first expression and before the comparator, on the main axes of those inside."""
    figure = Figure(figsize=(style.PAGE, 4.2))
    axes = figure.subplots(2, len(_STATES), squeeze=False)
    for column, variant in zip(axes.T, _STATES, strict=True):
        run = next(run for run in study.runs if run.variant == variant)
        model, train = Cadmus.load(results / run.training / "model"), run.config.train
        x, y, programs, pair = grid_programs(run.config)
        chosen = np.random.default_rng(0).permutation(len(programs))[:_PROGRAMS]
        x, y = x[pair[chosen]], y[pair[chosen]]
        prompts: Programs = programs.take(chosen).prefixes(np.full(len(chosen), 2 * HALF))
        states = [part for _, part in model.hidden_states(prompts)]
        layers = np.concatenate(states, axis=1)
        values = run.config.dataset.values
        outside = (np.minimum(x, y) < values.low) | (np.maximum(x, y) > values.high)
        places = [
            (train.state_layer or run.config.model.layers - 2, HALF - 1, x, "value of the first expression"),
            (train.pair_layer or run.config.model.layers - 1, 2 * HALF - 1, x - y, "difference"),
        ]
        for each, (layer, token, shown, _) in zip(column, places, strict=True):
            found = layers[layer, :, token]
            found = found / np.sqrt((found**2).mean(1, keepdims=True))
            mean = found[~outside].mean(0)
            main = np.linalg.svd(found[~outside] - mean, full_matrices=False)[2][:2]
            points = (found - mean) @ main.T
            for part, look in ((outside, {"s": 2}), (~outside, {"s": 5, "ec": "black", "lw": 0.2})):
                dots = each.scatter(
                    *points[part].T, c=shown[part], cmap="coolwarm", vmin=-60, vmax=60, **look
                )
            each.set(xticks=[], yticks=[])
        column[0].set_title(variant)
    for row, (*_, name) in zip(axes, places, strict=True):
        figure.colorbar(dots, ax=row, label=name, shrink=0.8)
    return figure
