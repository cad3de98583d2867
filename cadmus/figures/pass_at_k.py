"""solved@k and verified@k against the number of samples k."""

import polars as pl
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from cadmus.evaluate.questions import in_order
from cadmus.evaluate.statistics.results import CEILING, MODEL, accuracy_at_k
from cadmus.figures import panels, style

_LINES: tuple[panels.Line, ...] = (
    panels.Line(True, "verified", "model, verified@k", style.GREEN, "^"),
    panels.Line(True, "solved", "model, solved@k", style.BLUE, "o"),
    panels.Line(False, "solved", "random training completion, solved@k", style.GRAY),
    panels.Line(True, CEILING, "best possible", "black", style="--", band=False),
)
_BEFORE_AND_AFTER = (
    panels.Line(True, "solved", "after reinforcement learning", style.BLUE, "o"),
    panels.Line(True, "before", "before", style.ORANGE, "s", "--"),
    *(line for line in _LINES if not line.of_model or line.metric == CEILING),
)


def data(samples: pl.DataFrame) -> pl.DataFrame:
    """Return pass@k by question, policy and metric."""
    return in_order(accuracy_at_k(samples))


def draw(samples: pl.DataFrame, before: pl.DataFrame | None = None) -> Figure:
    """Draw the results of ``cadmus evaluate pass_at_k``, or solved@k with that of an earlier model."""
    results, lines = data(samples), _LINES
    if before is not None:
        earlier = data(before).filter(policy=MODEL, metric="solved").with_columns(metric=pl.lit("before"))
        results, lines = pl.concat([results, earlier]), _BEFORE_AND_AFTER
    figure = panels.by_question(results, "k", "samples per program, k", lines=lines)
    axes = figure.axes[0]
    axes.set_xscale("log", base=2)
    powers = [k for k in results["k"].unique().sort().to_list() if k.bit_count() == 1]
    # At most six.
    ticks = powers[:: -(-len(powers) // 6)]
    axes.set_xticks(ticks, [f"{k}" for k in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    return figure
