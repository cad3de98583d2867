"""Numbers files: what an experiment writes and a figure or table is drawn from."""

from collections.abc import Callable, Collection
from pathlib import Path

import numpy as np
import polars as pl

from cadmus.common.files import replacing
from cadmus.errors import InputError
from cadmus.evaluate.intervals import wilson

METRICS = {
    "verified": "Verified",
    "verified_equality": "Verified, ending in =",
    "exact": "Exact",
    "next_token": "Next token",
}
"""What :mod:`cadmus.evaluate.grading` tells of a completion, and how a table calls it."""
TEXTS = {"template", "metric", "target", "model", "symbols", "program", "completion", "outcome"}
"""The columns that hold texts; all others hold numbers, or whether something is so."""
SOLVE = "equality_solve"
"""The row for equality programs completed from after the first expression."""


def with_accuracy(numbers: pl.DataFrame) -> pl.DataFrame:
    """Add ``accuracy``, ``low`` and ``high`` behind the counts ``programs`` and ``correct``.

    All three are null where no program was tested.
    """
    programs = numbers["programs"].to_numpy()
    correct = numbers["correct"].fill_null(0).to_numpy()
    low, high = wilson(correct, programs)
    tested = pl.col("programs") > 0
    accuracy = correct / np.maximum(programs, 1)
    return numbers.with_columns(
        pl.when(tested).then(pl.Series(name, column)).alias(name)
        for name, column in (("accuracy", accuracy), ("low", low), ("high", high))
    )


def accuracy_by(completions: pl.DataFrame, *keys: str) -> pl.DataFrame:
    """The share of the completions of which each metric is true.

    Args:
        completions: as :func:`cadmus.evaluate.grading.complete` gives them.
        keys: columns; completions with the same values are taken together.

    Returns:
        The keys, metric, programs, correct, accuracy, low, high; sorted by the keys, metrics in the order of
        :data:`METRICS`.
    """
    counts = [
        completions.filter(pl.col(metric).is_not_null())
        .group_by(*keys)
        .agg(
            pl.lit(metric).alias("metric"), pl.len().alias("programs"), pl.col(metric).sum().alias("correct")
        )
        for metric in METRICS
    ]
    return with_accuracy(pl.concat(counts).sort(*keys, maintain_order=True))


def write_results(numbers: pl.DataFrame, path: Path | str, metadata: dict[str, str]) -> None:
    """Write a Parquet file of numbers with ``metadata`` as key-value metadata.

    Raises:
        InputError: the file cannot be written.
    """
    with replacing(path) as temporary:
        numbers.write_parquet(temporary, compression="zstd", metadata=metadata)


def read_results(path: Path | str, columns: Collection[str]) -> pl.DataFrame:
    """Read a numbers file (Parquet, CSV or JSON lines, by its suffix) that must hold ``columns``.

    Raises:
        InputError: the file is missing, damaged or empty, lacks a column, or has texts for numbers.
    """
    path = Path(path)
    readers: dict[str, Callable[[Path], pl.DataFrame]] = {
        ".parquet": pl.read_parquet,
        ".csv": pl.read_csv,
        ".jsonl": pl.read_ndjson,
    }
    if path.suffix not in readers:
        raise InputError(f"{path}: a numbers file ends in {', '.join(readers)}")
    if not path.is_file():
        raise InputError(f"{path}: no such numbers file")
    try:
        numbers = readers[path.suffix](path)
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(f"{path}: damaged or not a {path.suffix} file ({reason}); write it again") from None
    missing = [column for column in columns if column not in numbers.columns]
    if missing:
        raise InputError(
            f"{path}: no column {missing[0]!r}; needed are {', '.join(columns)}, "
            f"found are {', '.join(numbers.columns)}"
        )
    if numbers.is_empty():
        raise InputError(f"{path}: has no rows; write it again")
    for column in columns:
        found, texts = numbers.schema[column], column in TEXTS
        if (found != pl.Null and (found == pl.String) != texts) or found.is_nested():
            wanted = "texts" if texts else "numbers"
            raise InputError(f"{path}: column {column!r} holds {found}, not {wanted}; write it again")
    return numbers
