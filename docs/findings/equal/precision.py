"""How precise is the difference by which a model compares numbers beyond its range?

``precision.py FOLDER GRID...`` writes a row for each file of a comparison grid, and a picture, into a folder;
``precision.py FOLDER STUDY.yaml RESULTS`` takes the grids of a study from its results.

Shares are of all answers. The comparators among them, written after two numbers beyond the same end, are
fitted by maximum likelihood, as those of a model that adds a normal error to the difference and says "equal"
within a half-width of zero: half a unit is right.
"""

import sys
from pathlib import Path

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from scipy.optimize import minimize
from scipy.stats import norm

from cadmus.config.study import load_study
from cadmus.figures import style

RANGE = 20
FARTHEST = 30
"""Of the differences that are fitted."""
SHOWN = 15
X, Y = pl.col("x"), pl.col("y")
ANSWERS = ["less", "equal", "greater"]


def counted(grid: pl.DataFrame) -> pl.DataFrame:
    """Return the answers to pairs beyond the same end, by their difference, and the programs asked."""
    beyond = grid.filter(((X > RANGE) & (Y > RANGE)) | ((X < -RANGE) & (Y < -RANGE)))
    counts = (
        beyond.group_by((X - Y).alias("difference"))
        .agg(pl.col("programs", *ANSWERS).sum())
        .sort("difference")
    )
    return counts.filter(pl.col("difference").abs() <= FARTHEST)


def precision(counts: pl.DataFrame) -> dict[str, float | None]:
    """Return the standard deviation and bias of the error, the half-width, and how often "equal" is said."""
    difference, answers = counts["difference"].to_numpy(), counts.select(ANSWERS).to_numpy()

    def loss(parameters: np.ndarray) -> float:
        deviation, bias, half = np.exp(parameters[0]), parameters[1], np.exp(parameters[2])
        less = norm.cdf((-half - difference - bias) / deviation)
        greater = norm.sf((half - difference - bias) / deviation)
        shares = np.stack([less, 1 - less - greater, greater], 1).clip(1e-9, 1)
        return -float((answers * np.log(shares)).sum())

    starts = ([np.log(deviation), 0, np.log(0.5)] for deviation in (1, 5, 20))
    options = {"maxiter": 4_000}
    fits = (minimize(loss, start, method="Nelder-Mead", options=options) for start in starts)
    best = min(fits, key=lambda fit: fit.fun)
    found = {"deviation": np.exp(best.x[0]), "bias": best.x[1], "half_width": np.exp(best.x[2])}
    # Answers that do not depend on the difference fit an error without bound.
    follows = found["deviation"] < FARTHEST
    apart, asked = pl.col("difference").abs(), pl.col("programs").sum()
    distances = {
        "equal_at_0": apart == 0,
        "equal_at_1_to_3": apart.is_between(1, 3),
        "equal_above_10": apart > 10,
        "equal_at_even": (apart > 0) & (apart % 2 == 0),
        "equal_at_odd": apart % 2 == 1,
        "equal_at_6": (apart > 0) & (apart % 6 == 0),
        "equal_at_odd_3": apart % 6 == 3,
    }
    said = {
        name: counts.filter(which).select(pl.col("equal").sum() / asked).item()
        for name, which in distances.items()
    }
    return {**{name: value if follows else None for name, value in found.items()}, **said}


@style.styled
def draw(counts: dict[str, list[pl.DataFrame]]) -> Figure:
    """Draw how often each answer is given at each difference, over the seeds of a variant together."""
    figure = Figure(figsize=(style.PAGE, 2.2))
    grid = style.multiples(figure, len(counts), len(counts), sharey=True)
    for axes, (variant, of_seeds) in zip(grid.flat, counts.items(), strict=True):
        together = (
            pl.concat(of_seeds)
            .group_by("difference")
            .agg(pl.col("programs", *ANSWERS).sum())
            .sort("difference")
        )
        together = together.filter(pl.col("difference").abs() <= SHOWN)
        for answer, color in zip(ANSWERS, style.COLORS, strict=False):
            share = 100 * together[answer] / together["programs"]
            axes.plot(together["difference"], share, color=color, label=answer)
        axes.axvline(0, color=style.GRAY, lw=0.5)
        axes.set_title(variant, fontsize=7)
    grid.flat[0].set_ylabel("% of the answers")
    figure.supxlabel("X - Y, both beyond the same end of the range", fontsize=8)
    style.legend(figure, grid.flat, ncols=len(ANSWERS))
    return figure


def main() -> None:
    """Write the table and the picture."""
    folder, first, *others = map(Path, sys.argv[1:])
    if first.suffix == ".yaml":
        runs = [(run.variant, run.seed, others[0] / run.evaluation) for run in load_study(first).runs]
        grids = {(name, seed): place / "experiments/grid.parquet" for name, seed, place in runs}
    else:
        grids = {(path.parent.name, 0): path for path in (first, *others)}
    counts = {key: counted(pl.read_parquet(path)) for key, path in grids.items()}
    rows = [{"variant": name, "seed": seed, **precision(of)} for (name, seed), of in counts.items()]
    kind = "study" if first.suffix == ".yaml" else "models"
    pl.DataFrame(rows).write_csv(folder / f"{kind}.csv", float_precision=3)
    of_variants: dict[str, list[pl.DataFrame]] = {}
    for (name, _), of in counts.items():
        of_variants.setdefault(name, []).append(of)
    style.save(draw(of_variants), [folder / f"{kind}.png"])


if __name__ == "__main__":
    main()
