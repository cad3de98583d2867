"""Accuracy on each sub-problem against the executed instructions, those in calls included."""

import polars as pl
from matplotlib.figure import Figure

from cadmus.evaluate.statistics.results import accuracy_by
from cadmus.figures import panels
from cadmus.programs import Programs
from cadmus.vm.compiled import count_executed

BIN = 8
"""Numbers of instructions in a bin."""


def data(completions: pl.DataFrame) -> pl.DataFrame:
    """Return the accuracy by question and ``executed``, the smallest number of instructions in a bin."""
    programs = completions["program"].unique().to_list()
    counts = count_executed(Programs.from_strings(programs)) // BIN * BIN
    executed = pl.col("program").replace_strict(programs, counts.tolist(), return_dtype=pl.Int64)
    binned = completions.with_columns(executed.alias("executed"))
    return panels.plotted(accuracy_by(binned, "question", "executed"), "executed")


def draw(completions: pl.DataFrame) -> Figure:
    """Draw the results of ``cadmus evaluate completions``, each point at the middle of its bin."""
    middle = data(completions).with_columns(pl.col("executed") + (BIN - 1) / 2)
    return panels.by_question(middle, "executed", "executed instructions, those in calls included")
