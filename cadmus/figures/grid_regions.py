"""Accuracy on each region of the comparison grid, compared with baselines and with the paper."""

import polars as pl

from cadmus.evaluate.statistics.intervals import percent
from cadmus.evaluate.statistics.regions import REGIONS, summary
from cadmus.figures import reported, tables


def data(grid: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of :func:`~cadmus.evaluate.statistics.regions.summary`, and the paper's accuracy."""
    paper = pl.col("region").replace_strict(reported.GRID, default=None, return_dtype=pl.Float64)
    return summary(grid).with_columns(paper.alias("paper"))


def table(grid: pl.DataFrame) -> pl.DataFrame:
    """Return the accuracies of ``cadmus evaluate grid`` in percent, with 95% bootstrap intervals."""
    return pl.DataFrame(
        {
            "Region": REGIONS[row["region"]],
            "Pairs": f"{row['pairs']:,}",
            "Programs": f"{row['programs']:,}",
            "Accuracy": tables.accuracy(row),
            "Chance": percent(row["chance"]),
            "Best baseline": tables.baseline(row["best_baseline"], row["baseline"]),
            "Gap": tables.gap(row),
            "Paper": "" if row["paper"] is None else percent(row["paper"]),
        }
        for row in data(grid).iter_rows(named=True)
    )
