"""Result files: written by experiments, read by figures and tables."""

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
"""Metrics, which are columns of :func:`cadmus.evaluate.grading.complete`, and their titles in tables."""
TEXTS = {"template", "metric", "target", "model", "symbols", "program", "completion", "outcome"}
"""Text columns; all others are numeric or boolean."""
SOLVE = "equality_solve"
"""Name of equality programs completed from after the first expression."""


def with_accuracy(results: pl.DataFrame) -> pl.DataFrame:
    """Add ``accuracy`` and its interval ``low``, ``high`` to the counts ``programs`` and ``correct``.

    All three are null where ``programs`` is 0.
    """
    programs = results["programs"].to_numpy()
    correct = results["correct"].fill_null(0).to_numpy()
    low, high = wilson(correct, programs)
    tested = pl.col("programs") > 0
    accuracy = correct / np.maximum(programs, 1)
    return results.with_columns(
        pl.when(tested).then(pl.Series(name, column)).alias(name)
        for name, column in (("accuracy", accuracy), ("low", low), ("high", high))
    )


def accuracy_by(completions: pl.DataFrame, *keys: str) -> pl.DataFrame:
    """Compute the accuracy of completions by each metric.

    Args:
        completions: from :func:`cadmus.evaluate.grading.complete`.
        keys: columns to group by.

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


def write_results(results: pl.DataFrame, path: Path | str, metadata: dict[str, str]) -> None:
    """Write a Parquet file with ``metadata`` as key-value metadata.

    Raises:
        InputError: the file cannot be written.
    """
    with replacing(path) as temporary:
        results.write_parquet(temporary, compression="zstd", metadata=metadata)


def read_results(path: Path | str, columns: Collection[str]) -> pl.DataFrame:
    """Read a result file (Parquet, CSV or JSON lines, by its suffix) that has at least ``columns``.

    Raises:
        InputError: the file is missing, damaged or empty, or a column is missing or has the wrong type.
    """
    path = Path(path)
    readers: dict[str, Callable[[Path], pl.DataFrame]] = {
        ".parquet": pl.read_parquet,
        ".csv": pl.read_csv,
        ".jsonl": pl.read_ndjson,
    }
    if path.suffix not in readers:
        raise InputError(f"{path}: not a result file; its suffix must be {' or '.join(readers)}")
    if not path.is_file():
        raise InputError(f"{path}: no such result file")
    try:
        results = readers[path.suffix](path)
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(f"{path}: damaged or not a {path.suffix} file ({reason}); write it again") from None
    missing = [column for column in columns if column not in results.columns]
    if missing:
        raise InputError(
            f"{path}: no column {missing[0]!r}; needs {', '.join(columns)}; has {', '.join(results.columns)}"
        )
    if results.is_empty():
        raise InputError(f"{path}: has no rows; write it again")
    for column in columns:
        found, texts = results.schema[column], column in TEXTS
        if (found != pl.Null and (found == pl.String) != texts) or found.is_nested():
            wanted = "text" if texts else "numbers"
            raise InputError(f"{path}: column {column!r} holds {found}, not {wanted}; write it again")
    return results
