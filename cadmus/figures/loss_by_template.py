"""Loss on the completions of test programs, by template."""

import polars as pl

from cadmus.evaluate.questions import title
from cadmus.evaluate.statistics.intervals import loss_as_text
from cadmus.evaluate.statistics.results import loss_by


def data(losses: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of :func:`~cadmus.evaluate.statistics.results.loss_by`, the last over all templates."""
    every = loss_by(losses).select(pl.lit("all").alias("template"), pl.all())
    return pl.concat([loss_by(losses, "template"), every])


def table(losses: pl.DataFrame) -> pl.DataFrame:
    """Return the losses in nats per token, with 95% bootstrap intervals over programs."""
    return pl.DataFrame(
        {
            "Sub-problem": title(row["template"]),
            "Programs": f"{row['programs']:,}",
            "Tokens": f"{row['tokens']:,}",
            "Loss": loss_as_text(row["loss"], row["low"], row["high"]),
            "Best possible": "" if row["floor"] is None else f"{row['floor']:.4f}",
        }
        for row in data(losses).iter_rows(named=True)
    )
