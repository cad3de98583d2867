"""Result files."""

import polars as pl
import pytest

from cadmus.errors import InputError
from cadmus.evaluate.results import read_results, write_results


def test_results_keep_their_metadata(tmp_path) -> None:
    path = tmp_path / "deep" / "results.parquet"
    results = pl.DataFrame({"x": [1], "y": [None]}, schema={"x": pl.Int64, "y": pl.Int64})
    write_results(results, path, {"commit": "abc"})
    assert read_results(path, ["x", "y"]).equals(results)
    assert pl.read_parquet_metadata(path)["commit"] == "abc"
    assert [file.name for file in path.parent.iterdir()] == ["results.parquet"]


def test_results_without_rows_are_an_error(tmp_path) -> None:
    write_results(pl.DataFrame({"x": []}), tmp_path / "x.parquet", {})
    with pytest.raises(InputError, match=r"x\.parquet: has no rows"):
        read_results(tmp_path / "x.parquet", ["x"])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing.parquet", None, "no such result file"),
        ("results.xlsx", b"", "not a result file; its suffix must be .parquet or .csv or .jsonl"),
        ("results.parquet", b"PAR1 and no more", "damaged or not a .parquet file"),
        ("results.jsonl", b'{"step": 1', "damaged or not a .jsonl file"),
        ("results.csv", b"step\n1\n", "no column 'loss'; needs step, loss; has step"),
        ("results.csv", b"step,loss\n1,low\n", "column 'loss' holds String, not numbers"),
        ("results.jsonl", b'{"step": 1, "loss": [2]}', "column 'loss' holds List"),
    ],
)
def test_a_bad_result_file_is_an_error(tmp_path, name: str, content: bytes | None, message: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=message) as raised:
        read_results(path, ["step", "loss"])
    assert "\n" not in str(raised.value)
