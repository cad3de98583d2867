"""The Parquet file of a shard."""

import json

import polars as pl
import pyarrow.parquet as pq
import pytest

from cadmus import isa
from cadmus.dataset.manifest import write_manifest
from cadmus.dataset.reader import read_split
from cadmus.errors import InputError
from cadmus.programs import Programs
from cadmus.vm import reference
from tests.dataset.conftest import CONFIG


def test_polars_reads_the_columns(dataset):
    table = pl.read_parquet(dataset / "train/less_greater-0000.parquet")
    assert table.columns == ["template", "program", "prompt_length", "x", "y", "shard"]
    assert [str(dtype) for dtype in table.dtypes[1:]] == ["String", "UInt8", "Int16", "Int16", "Int32"]
    assert table["template"].cast(pl.String).unique().to_list() == ["less_greater"]
    assert table["x"].null_count() == 0
    sequences = pl.read_parquet(dataset / "train/basic_sequences-0000.parquet")
    assert sequences["x"].null_count() == len(sequences)
    assert all(reference.run(program).true for program in table["program"])


def test_metadata_describes_the_shard(dataset):
    path = dataset / "test/equality-0000.parquet"
    noted = json.loads(pq.read_metadata(path).metadata[b"cadmus"])
    assert noted["isa_digest"] == isa.digest()
    assert noted["isa_limits"]["call_budget"] == isa.CALL_BUDGET
    assert noted["config_digest"] == CONFIG.dataset_digest()
    assert (noted["template"], noted["split"], noted["shard"], noted["seed"]) == ("equality", "test", 0, 1)
    counts = noted["counts"]
    fates = ("unfit", "too_long", "rejected", "other_split", "duplicates", "surplus", "kept")
    assert counts["sampled"] == sum(counts[fate] for fate in fates)
    assert counts["kept"] == pq.read_metadata(path).num_rows


def test_other_parquet_files_are_rejected(copy):
    path = copy / "train/random-0000.parquet"
    for table in (pq.read_table(path).replace_schema_metadata(), pq.read_table(path).drop_columns("x")):
        pq.write_table(table, path)
        with pytest.raises(InputError, match="not a Cadmus shard"):
            write_manifest(CONFIG, copy)
        with pytest.raises(InputError, match="not a Cadmus shard"):
            read_split(copy, "train")


def test_programs_round_trip_through_arrow():
    texts = ["", "1", "34+7=", "", "u2b"]
    programs = Programs.from_strings(texts)
    assert Programs.from_arrow(programs.to_arrow()).to_strings() == texts
    assert Programs.from_arrow(programs.to_arrow().slice(1, 3)).to_strings() == texts[1:4]
