"""solved@k and verified@k against the number of samples k."""

import polars as pl
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from cadmus.evaluate.questions import in_order
from cadmus.evaluate.statistics.results import CEILING, accuracy_at_k
from cadmus.figures import panels, style

_LINES: tuple[panels.Line, ...] = (
    panels.Line(True, "verified", "model, verified@k", style.GREEN, "^"),
    panels.Line(True, "solved", "model, solved@k", style.BLUE, "o"),
    panels.Line(False, "solved", "random training completion, solved@k", style.GRAY),
    panels.Line(True, CEILING, "best possible", "black", style="--", band=False),
)


def data(samples: pl.DataFrame) -> pl.DataFrame:
    """Return pass@k by question, policy and metric."""
    return in_order(accuracy_at_k(samples))


def draw(samples: pl.DataFrame) -> Figure:
    """Draw the results of ``cadmus evaluate pass_at_k``."""
    results = data(samples)
    figure = panels.by_question(results, "k", "samples per program, k", lines=_LINES)
    axes = figure.axes[0]
    axes.set_xscale("log", base=2)
    powers = [k for k in results["k"].unique().sort().to_list() if k.bit_count() == 1]
    # At most six.
    ticks = powers[:: -(-len(powers) // 6)]
    axes.set_xticks(ticks, [f"{k}" for k in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    return figure
