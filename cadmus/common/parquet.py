"""Read Parquet files that may be damaged."""

from pathlib import Path

import polars as pl
import pyarrow.parquet as pq


def read_parquet(path: Path) -> pl.DataFrame:
    """Read a Parquet file, without its metadata.

    The reader of polars panics on some damaged files, and its constructor on metadata that is not UTF-8.

    Raises:
        Exception: of pyarrow or polars; call it within :func:`cadmus.errors.reading`.
    """
    with pq.ParquetFile(path) as file:
        return pl.DataFrame(file.read().replace_schema_metadata())
