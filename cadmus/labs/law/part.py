"""The scaling law as a part of a study: its table, figures and text."""

from collections.abc import Callable

import polars as pl
from matplotlib.figure import Figure

from cadmus.config.study import LOSSES
from cadmus.labs.law import law
from cadmus.study import FIGURE, Models
from cadmus.study.results import Results
from cadmus.tables import markdown

FIELD, NAME = "law_flops", "law"


def draw(study: Results, compared: pl.DataFrame, models: Models) -> tuple[pl.DataFrame, dict[str, Figure]]:
    """Fit the law; return its table, and its figure with the accuracies of the variants by size, if any."""
    runs, budgets = law.runs_of(study), study.of_labs[FIELD]
    fitted = law.fit(runs)
    laws = law.resampled(runs, fitted)
    figures = {NAME: law.draw(runs, fitted, laws, budgets, models)}
    if set(study.compare) - set(LOSSES):
        figures[FIGURE] = law.draw_accuracies(runs, compared)
    return law.table(fitted, laws, budgets), figures


def text(study: Results, optimal: pl.DataFrame, files: str) -> str:
    """Return the figure, the law as a formula, and a table of the optimal size for each budget."""
    rows = {name: interval for name, *interval in optimal.iter_rows()}
    fits = {name: f"{value:.3g}" for name, (value, _, _) in rows.items()}
    formula = "loss = {E} + {A} / N^{alpha} + {B} / D^{beta}".format_map(fits)

    def cell(name: str, show: Callable[[float], str]) -> str:
        return "{} [{}, {}]".format(*map(show, rows[name]))

    def rounded(value: float) -> str:
        return f"{float(f'{value:.2g}'):,.0f}"

    shown = {"parameters": rounded, "programs": rounded, "loss": "{:.3f}".format}
    by_budget = [
        [f"{amount:.3g}", *(cell(f"{name} at {amount:.3g}", show) for name, show in shown.items())]
        for amount in study.of_labs[FIELD]
    ]
    return (
        f"![Scaling law]({files}/{NAME}.png)\n\n"
        f"With N parameters and D programs, `{formula}`. For large budgets the optimal N grows as FLOPs to "
        f"the power of {cell('exponent', '{:.2f}'.format)} "
        f"([all coefficients]({files}/{NAME}.csv)).\n\n"
        + markdown(["FLOPs", "optimal parameters", "programs", "loss in nats"], by_budget)
    )
