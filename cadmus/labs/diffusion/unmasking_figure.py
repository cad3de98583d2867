"""The order in which masked diffusion writes solved completions: with the data flow, and from the left."""

import polars as pl
from matplotlib.figure import Figure

from cadmus.evaluate.questions import in_order, title
from cadmus.evaluate.statistics.results import with_accuracy
from cadmus.figures import style

LOOKS = {
    "data flow": ("uses", "uses_after", "after what it uses", style.BLUE, "o", 0.1),
    "left": ("neighbors", "left_first", "after its left neighbor", style.ORANGE, "D", -0.1),
}
_FEWEST = 50
"""Pairs of instructions from which a question is drawn."""


def data(unmasking: pl.DataFrame) -> pl.DataFrame:
    """Return the fraction of pairs in solved completions by question and relation."""
    parts = [
        unmasking.filter("solved").select(
            "question", pl.lit(relation).alias("relation"), programs=pairs, correct=first
        )
        for relation, (pairs, first, *_) in LOOKS.items()
    ]
    return with_accuracy(in_order(pl.concat(parts)))


def draw(unmasking: pl.DataFrame) -> Figure:
    """Draw the results of ``cadmus evaluate unmasking`` as paired dots."""
    fractions = data(unmasking).filter(pl.col("programs") >= _FEWEST)
    names = list(reversed(dict.fromkeys(fractions["question"])))
    figure = Figure(figsize=(style.COLUMN, 1.0 + 0.28 * max(1, len(names))))
    axes = figure.subplots()
    if not names:
        style.not_tested(axes)
    for relation, (_, _, label, color, marker, shift) in LOOKS.items():
        rows = fractions.filter(relation=relation)
        places = [names.index(name) + shift for name in rows["question"]]
        axes.plot(rows["accuracy"], places, ls="none", color=color, marker=marker, ms=4, label=label)
    for place, text in ((0.5, "random order"), (1.0, "left to right")):
        axes.axvline(place, color=style.GRAY, lw=0.7, ls="--")
        # Above the axes, where it covers no dot.
        axes.annotate(text, (place, len(names) - 0.25), ha="center", fontsize=6, annotation_clip=False)
    axes.set_yticks(range(len(names)), [title(name) for name in names])
    axes.xaxis.set_major_formatter(style.PERCENT)
    axes.set(xlabel="instructions that are chosen …", xlim=(-0.03, 1.06), ylim=(-0.6, len(names) - 0.3))
    axes.grid(True, axis="x")
    style.legend(figure, [axes], ncols=2)
    return figure
