"""A scaling law fitted to the runs of a study: loss by parameters and programs, and the optimal size.

The law is that of Hoffmann et al. (arXiv 2203.15556): with N parameters and D programs, the loss is
E + A / N^alpha + B / D^beta. A program costs f + c N FLOPs, with f and c fitted: part of the cost of a small
model does not depend on its size. The optimal N for a budget is the one whose loss is smallest. For large
budgets it grows as the budget to the power of beta / (alpha + beta).
"""

import itertools
from typing import NamedTuple

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from cadmus.config.study import LOSSES
from cadmus.errors import InputError
from cadmus.evaluate.questions import in_order
from cadmus.evaluate.statistics.intervals import mean_interval
from cadmus.evaluate.statistics.results import MODEL
from cadmus.figures import panels, style
from cadmus.labs.law.settings import VARIANTS
from cadmus.study import Models
from cadmus.study.results import Results
from cadmus.tools import progress

NAMES = ("E", "A", "alpha", "B", "beta")
RESAMPLES = 200
LINE = 1.3
"""Runs whose costs differ by less than this factor are on the same line of equal cost."""
_POSITIVE = np.array([True, True, False, True, False])
_SIZES = np.geomspace(1e3, 1e12, 9_001)
"""Parameters among which the optimum is sought."""


class Law(NamedTuple):
    coefficients: np.ndarray
    """E in nats, A, alpha, B and beta; shape (5,)"""
    cost: np.ndarray
    """of a program, fixed and per parameter; shape (2,)"""

    def loss(self, parameters: np.ndarray, programs: np.ndarray) -> np.ndarray:
        floor, by_parameters, alpha, by_programs, beta = self.coefficients
        return floor + by_parameters * parameters**-alpha + by_programs * programs**-beta

    def programs(self, parameters: np.ndarray, budgets: np.ndarray | float) -> np.ndarray:
        """Return the programs on which models can be trained for the budgets."""
        fixed, per_parameter = self.cost
        return budgets / (fixed + per_parameter * parameters)

    def optimal_parameters(self, budgets: np.ndarray) -> np.ndarray:
        losses = self.loss(_SIZES, self.programs(_SIZES, budgets[:, None]))
        return _SIZES[losses.argmin(axis=1)]


def runs_of(results: Results) -> pl.DataFrame:
    """Return variant, seed, parameters, programs, cost and loss of each run, by the first loss compared."""
    metric = next((name for name in results.compare if name in LOSSES), None)
    if metric is None:
        raise InputError("study.compare: a law needs a loss")
    columns = ("variant", "seed", "parameters", "programs")
    runs = results.rows.filter(metric=metric).select(*columns, cost="flops", loss="value")
    for variant, seed in runs.filter(pl.col("loss") <= 0).select("variant", "seed").iter_rows():
        raise InputError(f"{metric}: {variant}, seed {seed}: must be above 0 to fit a law")
    return runs


def fit(runs: pl.DataFrame, near: Law | None = None) -> Law:
    """Fit the law by robust least squares of the logarithm of the loss, from ``near`` or several starts."""
    from scipy.optimize import least_squares, nnls

    columns = runs.select("parameters", "programs", "cost", "loss").cast(pl.Float64)
    parameters, programs, cost, loss = (column.to_numpy() for column in columns)

    def residuals(coefficients: np.ndarray) -> np.ndarray:
        # E, A and B by their logarithms are positive.
        floor, by_parameters, alpha, by_programs, beta = coefficients
        of_size = by_parameters - alpha * np.log(parameters)
        of_programs = by_programs - beta * np.log(programs)
        return np.logaddexp.reduce((np.full_like(loss, floor), of_size, of_programs)) - np.log(loss)

    starts = [
        (fraction * loss.min(), size, alpha, size, beta)
        for fraction, size, alpha, beta in itertools.product((0.3, 0.9), (1.0, 100.0), (0.2, 0.6), (0.2, 0.6))
    ]
    bounds = np.array([-20.0, -20.0, 0.01, -20.0, 0.01]), np.array([10.0, 30.0, 3.0, 30.0, 3.0])
    fits = [
        least_squares(
            residuals,
            np.clip(np.where(_POSITIVE, np.log(start), start), *bounds),
            bounds=bounds,
            loss="huber",
            f_scale=1e-3,
        )
        for start in (starts if near is None else [near.coefficients])
    ]
    best = min(fits, key=lambda result: result.cost).x
    # Relative errors, so that small models count as much as large ones.
    of_program = programs / cost
    by_size = np.stack((of_program, of_program * parameters), axis=1)
    return Law(np.where(_POSITIVE, np.exp(best), best), nnls(by_size, np.ones_like(cost))[0])


def resampled(runs: pl.DataFrame, law: Law) -> list[Law]:
    """Return the laws of :data:`RESAMPLES` resamples of the variants, each with all its seeds.

    Variants rather than runs are drawn, so that the spread has what the form of the law misses.
    """
    random = np.random.default_rng(0)
    parts = runs.partition_by("variant", maintain_order=True)
    laws = []
    for _ in progress("law", range(RESAMPLES), unit="fit"):
        numbers: list[int] = []
        # Fewer variants than the law needs do not determine it: draw again.
        while len(set(numbers)) < min(len(parts), VARIANTS):
            numbers = random.integers(len(parts), size=len(parts)).tolist()
        laws.append(fit(pl.concat([parts[number] for number in numbers]), law))
    return laws


def table(law: Law, laws: list[Law], budgets: list[float]) -> pl.DataFrame:
    """Return name, value, low and high (95% interval) of the coefficients and of what follows from them.

    ``exponent`` is that of large budgets in the optimal number of parameters. ``parameters``, ``programs``
    and ``loss at C`` are those of the optimal model for ``C`` of ``budgets``.
    """
    values = _quantities(law, budgets)
    others = [list(_quantities(other, budgets).values()) for other in laws]
    low, high = np.quantile(others, [0.025, 0.975], axis=0)
    return pl.DataFrame({"name": values.keys(), "value": values.values(), "low": low, "high": high})


def _quantities(law: Law, budgets: list[float]) -> dict[str, float]:
    """Return the values of :func:`table` by name."""
    quantities = dict(zip(NAMES, law.coefficients.tolist(), strict=True))
    quantities["exponent"] = quantities["beta"] / (quantities["alpha"] + quantities["beta"])
    quantities |= zip(("fixed cost", "cost of a parameter"), law.cost.tolist(), strict=True)
    for amount in budgets:
        parameters = law.optimal_parameters(np.array([amount]))
        programs = law.programs(parameters, np.array([amount]))
        quantities[f"parameters at {amount:.3g}"] = parameters.item()
        quantities[f"programs at {amount:.3g}"] = programs.item()
        quantities[f"loss at {amount:.3g}"] = law.loss(parameters, programs).item()
    return quantities


def draw(runs: pl.DataFrame, law: Law, laws: list[Law], budgets: list[float], models: Models) -> Figure:
    """Draw the loss against the parameters on lines of equal cost, and the optimal size with ``models``."""
    figure = Figure(figsize=(style.PAGE, 2.6))
    left, right = figure.subplots(1, 2)
    parameters = runs["parameters"].to_numpy()
    sizes = np.geomspace(parameters.min() / 1.5, parameters.max() * 1.5, 100)
    measured = []
    for line, amount, color, marker in _lines(runs):
        left.plot(sizes, law.loss(sizes, law.programs(sizes, amount)), color=color, lw=0.8)
        left.vlines(line["parameters"], line["low"], line["high"], color, lw=0.8)
        left.plot(line["parameters"], line["loss"], marker, color=color, label=f"{amount:.2g} FLOPs")
        measured.append(amount)
    optimum = law.optimal_parameters(np.array(measured))
    lowest = law.loss(optimum, law.programs(optimum, np.array(measured)))
    left.plot(optimum, lowest, "k*", ms=7, label="optimal size")
    left.set(xscale="log", xlabel="parameters", ylabel="loss in nats")
    left.legend()
    costs = [cost for cost, _ in models.values()]
    amounts = np.geomspace(min(measured) / 2, max([*measured, *budgets, *costs]) * 2, 60)
    low, high = np.quantile([other.optimal_parameters(amounts) for other in laws], [0.025, 0.975], axis=0)
    right.fill_between(amounts, low, high, color=style.GRAY, alpha=0.3, lw=0, label="95% interval")
    right.plot(amounts, law.optimal_parameters(amounts), color="k", label="optimal size")
    right.axvspan(min(measured), max(measured), color=style.BLUE, alpha=0.1, lw=0, label="measured FLOPs")
    for (name, place), marker in zip(models.items(), "Ds", strict=False):
        right.plot(*place, marker, color=style.ORANGE, ms=5, label=name)
    right.set(xscale="log", yscale="log", xlabel="FLOPs", ylabel="parameters")
    right.legend(loc="lower right")
    return figure


def draw_accuracies(runs: pl.DataFrame, compared: pl.DataFrame) -> Figure:
    """Draw accuracies of ``compared`` against the parameters, a line per budget, with the best baseline."""
    accuracies = compared.filter(~pl.col("metric").is_in(LOSSES))
    rows = accuracies.filter(pl.col("metric") == pl.col("metric").first())
    rows = rows.join(runs.select("variant", "parameters").unique(), "variant")
    # The figure leaves out points of few programs; these are means over many.
    rows = rows.sort("parameters").with_columns(question="template", accuracy="mean", programs=pl.lit(100))
    best = rows.with_columns(policy=pl.lit("baseline"), metric=pl.lit("best"), accuracy="baseline")
    lines, parts = [], [best]
    for line, amount, color, marker in _lines(runs):
        name = f"{amount:.2g} FLOPs"
        lines.append(panels.Line(True, name, name, color, marker))
        of_line = rows.filter(pl.col("variant").is_in(line["variant"]))
        parts.append(of_line.with_columns(policy=pl.lit(MODEL), metric=pl.lit(name)))
    lines.append(panels.Line(False, "best", "best baseline", style.GRAY, style="--", band=False))
    results = in_order(pl.concat(parts, how="diagonal"))
    figure = panels.by_question(results, "parameters", "parameters", lines=lines)
    style.log_axis(figure.axes[0])
    return figure


def _lines(runs: pl.DataFrame) -> list[tuple[pl.DataFrame, float, str, str]]:
    """Return the runs (with 95% intervals over seeds), mean cost, color and marker of lines of equal cost."""
    rows = []
    for (variant,), part in runs.group_by(["variant"], maintain_order=True):
        mean, low, high = mean_interval(part["loss"].to_numpy())
        common = {"variant": variant, "parameters": part["parameters"][0], "cost": part["cost"].mean()}
        rows.append({**common, "loss": mean, "low": low, "high": high})
    means = pl.DataFrame(rows).with_columns(pl.col("low", "high").fill_nan(pl.col("loss"))).sort("cost")
    ratio = (pl.col("cost") / pl.col("cost").shift()).fill_null(1.0)
    lines = means.with_columns(line=(ratio > LINE).cum_sum()).partition_by("line", maintain_order=True)
    amounts = [float(np.exp(np.log(line["cost"].to_numpy()).mean())) for line in lines]
    return list(zip(lines, amounts, itertools.cycle(style.COLORS), itertools.cycle("os^D"), strict=False))
