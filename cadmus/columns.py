"""Declared columns of the tables that Cadmus reads: types, bounds, and what holds in every row.

``docs/columns.md`` says what they mean.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from cadmus import isa
from cadmus.config import LONGEST_PROGRAM
from cadmus.errors import InputError

MOST_ROWS = 10_000_000
"""Rows of a table that is read; a small file can claim any number."""
LONGEST_TEXT = 500
_INSTRUCTION = f"[{re.escape(''.join(symbol for symbol in isa.BY_SYMBOL if symbol != isa.END))}]"


@dataclass(frozen=True)
class Column:
    """A column whose numbers are all finite."""

    type: Any
    """int, float, str or bool."""
    low: float | None = None
    """Smallest number."""
    high: float | None = None
    """Largest number."""
    rounding: float = 0.0
    """By how much numbers may miss these two; they are moved to them."""
    values: Collection[str] = ()
    """Texts that it may have; any if empty."""
    pattern: str = ""
    """Regular expression of a whole text."""
    form: str = ""
    """Meaning of the pattern, for errors."""
    longest: int = LONGEST_TEXT
    """Characters of a text."""
    null: bool = False
    """True if values may be null."""
    optional: bool = False
    """True if the column may be absent; it is then null."""

    def or_null(self) -> "Column":
        return replace(self, null=True)


FLAG = Column(bool)
TEXT = Column(str)
NAME = Column(str, pattern="[A-Za-z0-9_@]+", form="a name of letters, digits and _")
LABEL = Column(str, pattern=r"[^\p{C}$\\]*", form="text without control characters, $ and \\")
"""Text that a figure shows."""
PROGRAM = Column(
    str,
    pattern=f"{_INSTRUCTION}{{1,{LONGEST_PROGRAM}}}",
    form=f"a program of at most {LONGEST_PROGRAM} instructions",
)
COMPLETION = replace(PROGRAM, pattern=f"{_INSTRUCTION}{{0,{LONGEST_PROGRAM}}}")
COUNT = Column(int, low=0, high=10**15)
"""Of programs or tokens; figures add them up."""
POSITIVE = replace(COUNT, low=1)
NUMBER = Column(float)
NONNEGATIVE = Column(float, low=0, rounding=1e-9)
POSITIVE_NUMBER = Column(float, low=5e-324)
FRACTION = Column(float, low=0, high=1, rounding=1e-9)
VALUE = Column(int, low=-1_000, high=1_000)
"""A compared number."""
LAYER = Column(int, low=0, high=200)
"""A figure has no room for more."""


def one_of(values: Collection[str]) -> Column:
    return Column(str, values=values)


@dataclass(frozen=True)
class Table:
    """A table, which has at least one row."""

    columns: Mapping[str, Column]
    rules: Mapping[str, pl.Expr] = field(default_factory=dict)
    """Conditions on every row, by `COLUMN: what must be`; null is true."""

    @property
    def schema(self) -> pl.Schema:
        return pl.Schema({name: column.type for name, column in self.columns.items()})

    def checked(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return a table in its declared types, with other columns after those declared.

        Texts may be categories. Raises InputError, a line that begins with the column.
        """
        for name, column in self.columns.items():
            if name not in frame.columns and not column.optional:
                has = ", ".join(frame.columns)
                raise InputError(f"no column {name!r}; needs {', '.join(self.columns)}; has {has}")
        if frame.is_empty():
            raise InputError("has no rows")
        declared = [_checked(name, column, frame) for name, column in self.columns.items()]
        frame = frame.select(*declared, pl.exclude(*self.columns))
        for rule, holds in self.rules.items():
            broken = frame.select(~holds.fill_null(value=True)).to_series()
            if broken.any():
                where = f", unlike in row {broken.arg_max()}" if len(broken) > 1 else ""
                raise InputError(f"{rule}{where}")
        return frame


MEASURED = Table(
    {
        "template": LABEL,
        "metric": NAME,
        "value": NONNEGATIVE,
        "n": POSITIVE,
        "baseline": FRACTION.or_null(),
    }
)
"""Measurements of a run by an experiment, for studies: accuracies, or losses in nats."""
METRICS = Table(
    {
        "step": COUNT,
        "loss": NONNEGATIVE,
        "completion_loss": NONNEGATIVE,
        "programs": COUNT,
        "flops": NONNEGATIVE,
        "seconds": NONNEGATIVE,
        # A training may be without them.
        "validation_loss": replace(NONNEGATIVE, null=True, optional=True),
        "reinforcement_solved": replace(FRACTION, null=True, optional=True),
    }
)
"""The metrics of a training that others read; here, because a training needs no Polars."""


def _checked(name: str, column: Column, frame: pl.DataFrame) -> pl.Series:
    """Return a column of a table in its declared type."""
    dtype = pl.Schema({name: column.type})[name]
    if name not in frame.columns:
        return pl.Series(name, [None] * len(frame), dtype=dtype)
    values = frame[name]
    if values.has_nulls() and not column.null:
        raise InputError(f"{name}: null in row {values.is_null().arg_max()}")
    if not _fits(values.dtype, dtype):
        raise InputError(f"{name}: must have type {dtype}, has {values.dtype}")
    if dtype == pl.String:
        _check_texts(name, column, values)
    try:
        values = values.cast(dtype)
    except pl.exceptions.PolarsError:
        raise InputError(f"{name}: must have type {dtype}, has other values") from None
    if dtype.is_numeric():
        _check_numbers(name, column, values)
    return values.clip(column.low, column.high) if column.rounding else values


def _fits(dtype: Any, declared: Any) -> bool:
    """Return True if a type is the declared one or a narrower one."""
    if dtype == pl.Null:
        return True
    if declared == pl.String:
        return dtype in (pl.String, pl.Categorical)
    if declared.is_float():
        return dtype.is_numeric()
    return dtype.is_integer() if declared.is_integer() else dtype == declared


def _check_texts(name: str, column: Column, values: pl.Series) -> None:
    """Check each different text once: a small file may repeat one in millions of rows."""
    texts = values.unique().cast(pl.String).drop_nulls()
    problems = {f"must have at most {column.longest:,} characters": texts.str.len_chars() > column.longest}
    if column.values:
        problems[f"must be one of {', '.join(column.values)}"] = ~texts.is_in(list(column.values))
    if column.pattern:
        problems[f"must be {column.form}"] = ~texts.str.contains(f"^(?:{column.pattern})$")
    for problem, bad in problems.items():
        if bad.any():
            raise InputError(f"{name}: {problem}, got {texts.filter(bad)[0][:60]!r}")


def _check_numbers(name: str, column: Column, values: pl.Series) -> None:
    finite = values.is_finite()
    if not finite.all():
        raise InputError(f"{name}: not finite in row {(~finite).arg_max()}")
    for word, bound, least in (("least", column.low, True), ("most", column.high, False)):
        if bound is None:
            continue
        outside = values < bound - column.rounding if least else values > bound + column.rounding
        if (bad := outside.fill_null(value=False)).any():
            value = values.filter(bad)[0]
            raise InputError(f"{name}: must be at {word} {bound:,}, got {value} in row {bad.arg_max()}")
