"""Readers of Parquet open a dataset in one line, those of its card among them."""

import importlib
import re

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cadmus.dataset.manifest import read_manifest
from cadmus.dataset.shards import SCHEMA
from cadmus.pages.dataset import dataset_card
from cadmus.store import write_card
from tests.checkout import ROOT

CARD = (ROOT / "cadmus/pages/dataset.md").read_text(encoding="utf-8")
LINES = [
    *re.findall(r"^\| [^|]+ \| `(.+)` \|$", CARD, re.MULTILINE),
    'datasets.load_dataset("parquet", data_dir="DATASET/data")',
    'fastparquet.ParquetFile("DATASET/data")',
    'polars.read_parquet("DATASET/data")',
    'polars.scan_parquet("DATASET/**/*.parquet")',
    'pyarrow.parquet.read_table("DATASET/data")',
]


def of_datasets(found):
    """Return the programs of all splits, which the library separates by their names."""
    for split, programs in found.items():
        assert set(programs["split"]) == {split}
    return pa.concat_tables(programs.with_format("arrow")[:] for programs in found.values())


TABLES = {
    "datasets": of_datasets,
    "duckdb": lambda found: found.pl().to_arrow(),
    "fastparquet": lambda found: pa.Table.from_pandas(found.to_pandas()),
    "pandas": pa.Table.from_pandas,
    "polars": lambda found: found.lazy().collect().to_arrow(),
    "pyarrow": lambda found: found if isinstance(found, pa.Table) else found.to_table(),
}
"""Functions that return what a package has read as a table of Arrow."""


def plain(table):
    """Return the columns of a dataset as numbers and strings, sorted by their key."""
    numbers = [name for name in SCHEMA.names if name not in ("split", "template", "program")]
    rows = pl.DataFrame(pl.from_arrow(table.select(SCHEMA.names))).cast(pl.String)
    return rows.cast(dict.fromkeys(numbers, pl.Float64)).sort("split", "template", "number")


@pytest.fixture(scope="module")
def dataset(ruled):
    """A dataset with all splits but validation, and with its card."""
    write_card(ruled / "README.md", dataset_card(ruled))
    return ruled


@pytest.mark.parametrize("line", LINES)
def test_one_line_reads_all_programs_with_their_splits(dataset, line, tmp_path, monkeypatch):
    module = line[: line.index("(")].rpartition(".")[0]
    package = module.partition(".")[0]
    names = {package: pytest.importorskip(package)}
    # Such as pyarrow.dataset, which PyArrow does not import.
    importlib.import_module(module)
    if package == "datasets":
        monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path)
        monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    written = [
        plain(pq.ParquetFile(dataset / file.file).read()).with_columns(split=pl.lit(file.split))
        for file in read_manifest(dataset).files
    ]
    expected = pl.concat(written).sort("split", "template", "number")
    assert expected.select("split", "template", "number").is_unique().all()
    if "$first" in line:
        expected = expected.filter(template="equality")
    # The folders that it takes for splits have the names of the hub.
    if "data_dir" in line:
        expected = expected.filter(pl.col("split") != "ood")
    code = line.replace("$first", "equality").replace("DATASET", str(dataset))
    assert plain(TABLES[package](eval(code, names))).equals(expected)


def test_the_rows_of_a_split_come_template_by_template(dataset):
    templates = pl.read_parquet(dataset / "data").filter(split="train")["template"].cast(pl.String)
    assert len(templates.rle()) == templates.n_unique() > 1
