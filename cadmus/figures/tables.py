"""Tables of figures and reports, given as data frames of strings."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from cadmus.evaluate.questions import title
from cadmus.evaluate.statistics.intervals import as_text, gap_as_text, percent
from cadmus.tables import escape, markdown


def render(table: pl.DataFrame) -> str:
    """Return a table as Markdown; cells between backticks are code."""
    names, *rows = ([escape(cell) for cell in row] for row in (table.columns, *table.rows()))
    return markdown(names, rows)


def accuracy(row: Mapping[str, Any] | None) -> str:
    """Return an accuracy and its interval in percent; None has no program."""
    return "none tested" if row is None else as_text(row["accuracy"], row["low"], row["high"])


def gap(row: Mapping[str, Any]) -> str:
    """Return the gap to the best baseline and its interval in percentage points; empty without a baseline."""
    return "" if row["gap"] is None else gap_as_text(row["gap"], row["gap_low"], row["gap_high"])


def baseline(policy: str | None, accuracy: float) -> str:
    """Return the accuracy of a baseline in percent, and its title; empty without a baseline."""
    return "" if policy is None else f"{percent(accuracy)} ({title(policy)})"


def best_accuracy(best: pl.DataFrame) -> str:
    """Return the accuracy and the name of a best baseline: "none" without baselines."""
    return "none" if best.is_empty() else baseline(best["policy"][0], best["accuracy"][0])
