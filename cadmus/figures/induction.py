"""Induction against the exact posterior over functions."""

import polars as pl
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from cadmus.config import OOD
from cadmus.evaluate.statistics.results import induction_by
from cadmus.figures import style

_RIGHT = {
    "ceiling": ("best possible", "black", "", "--"),
    "voted": ("model, most votes", style.PURPLE, "s", "-"),
    "greedy": ("model, greedy", style.BLUE, "o", "-"),
    "prior": ("without the examples", style.GRAY, "", "-"),
}
_PANELS = {
    "examples": _RIGHT,
    "functions": _RIGHT,
    "variation": {
        "total_variation": ("samples of the model", style.GREEN, "", "-"),
        "ideal_variation": ("samples of the posterior", "black", "", "-"),
    },
    "fraction": {"voted": _RIGHT["voted"]},
}
"""Panels and their lines: label, color, marker and dashes."""
_FRACTIONS = 5
"""Bins of the fraction of votes."""
_FEW = 10
"""Prompts below which a point is not drawn."""


def data(results: pl.DataFrame) -> pl.DataFrame:
    """Return the points of all panels: panel, split, x, policy, programs, correct, accuracy, low, high."""
    binned = (2 ** pl.col("functions").log(2).floor()).alias("functions")
    fraction = pl.col("votes") / pl.col("fits")
    bin_of_fraction = ((fraction * _FRACTIONS).ceil().clip(1) - 0.5) / _FRACTIONS
    voted = results.filter(pl.col("votes") > 0).with_columns(fraction=bin_of_fraction)
    variation = results.unpivot(
        ["total_variation", "ideal_variation"], index=["split", "examples"], variable_name="policy"
    )
    mean = variation.group_by("split", "examples", "policy", maintain_order=True).agg(
        pl.len().alias("programs"), pl.col("value").mean().alias("accuracy")
    )
    panels = {
        "examples": induction_by(results, "examples").rename({"examples": "x"}),
        "functions": induction_by(results.with_columns(binned), "functions").rename({"functions": "x"}),
        "variation": mean.rename({"examples": "x"}),
        "fraction": induction_by(voted, "fraction").filter(policy="voted").rename({"fraction": "x"}),
    }
    columns = ["panel", "split", "x", "policy", "programs", "correct", "accuracy", "low", "high"]
    points = [rows.with_columns(panel=pl.lit(name)) for name, rows in panels.items()]
    return pl.concat(points, how="diagonal_relaxed").select(columns)


def draw(results: pl.DataFrame) -> Figure:
    """Draw the results of ``cadmus evaluate induction``, a row of panels for each split."""
    points = data(results).filter(pl.col("programs") >= _FEW)
    splits = results["split"].unique(maintain_order=True).to_list()
    figure = Figure(figsize=(style.PAGE, 0.5 + 1.8 * len(splits)))
    panels = figure.subplots(len(splits), len(_PANELS), squeeze=False)
    for of_split, split in zip(panels, splits, strict=True):
        for axes, (panel, lines) in zip(of_split, _PANELS.items(), strict=True):
            for policy, (label, color, marker, dashes) in lines.items():
                shown = points.filter(panel=panel, split=split, policy=policy)
                look = {"color": color, "marker": marker, "ls": dashes, "label": label}
                style.line(axes, shown, "x", "accuracy", band=marker != "", **look)
            style.percent_axis(axes)
            if points.filter(panel=panel, split=split).is_empty():
                style.not_tested(axes)
            elif panel == "functions":
                axes.set_xscale("log", base=2)
                axes.xaxis.set_minor_locator(NullLocator())
        examples, functions, variation, fraction = of_split
        fraction.plot([0, 1], [0, 1], color="black", ls=":", lw=0.8)
        seen = "function never seen" if split == OOD else "test function"
        examples.set(xlabel="examples", ylabel=f"right, {seen}")
        functions.set(xlabel="functions left")
        variation.set(xlabel="examples", ylabel="total variation")
        fraction.set(xlabel="fraction of the votes", ylabel="right")
    style.legend(figure, panels[0], ncols=3)
    return figure
