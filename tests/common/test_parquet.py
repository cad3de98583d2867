from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from cadmus.common.parquet import read_parquet


def test_metadata_that_is_not_utf8_does_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "damaged.parquet"
    table = pa.table({"x": [1, 2], "name": ["a", None]})
    pq.write_table(table.replace_schema_metadata({"commit": b"\xff"}), path)
    assert read_parquet(path).equals(pl.DataFrame({"x": [1, 2], "name": ["a", None]}))
