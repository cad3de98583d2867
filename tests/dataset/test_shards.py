"""The plan of shards, and their files."""

import json

import polars as pl
import pyarrow.parquet as pq
import pytest

from cadmus import isa
from cadmus.config import Dataset
from cadmus.dataset.shards import list_shards, write_shard
from cadmus.errors import InputError
from cadmus.pipeline import sample
from tests.dataset.conftest import CONFIG


def test_shards_have_equal_sizes_that_add_up_to_the_config():
    shards = list_shards(CONFIG)
    assert [shard.rows for shard in shards if shard[:2] == ("less_greater", "train")] == [500, 500]
    for split, rows in (("train", 3_500), ("validation", 9 * 40), ("test", 9 * 60)):
        assert sum(shard.rows for shard in shards if shard.split == split) == rows
    uneven = list_shards(
        CONFIG.model_copy(update={"dataset": CONFIG.dataset.model_copy(update={"shard_size": 350})})
    )
    sizes = [shard.rows for shard in uneven if shard[:2] == ("less_greater", "train")]
    assert sorted(sizes) == [333, 333, 334]
    starts = [shard.start for shard in uneven if shard[:2] == ("less_greater", "train")]
    assert starts == [0, sizes[0], sizes[0] + sizes[1]]


def test_polars_reads_the_columns(dataset):
    table = pl.read_parquet(dataset / "data/train/less_greater-0000.parquet")
    assert table.columns == ["split", "template", "number", "program", "prompt_length", "x", "y"]
    assert [str(dtype) for dtype in table.dtypes[2:]] == ["Int64", "String", "UInt8", "Int16", "Int16"]
    assert table["template"].cast(pl.String).unique().to_list() == ["less_greater"]
    assert table["x"].null_count() == 0
    sequences = pl.read_parquet(dataset / "data/train/basic_sequences-0000.parquet")
    assert sequences["x"].null_count() == len(sequences)


def test_metadata_describes_the_shard(dataset):
    path = dataset / "data/test/equality-0000.parquet"
    noted = json.loads(pq.read_metadata(path).metadata[b"cadmus"])
    assert noted["isa_limits"]["call_budget"] == isa.CALL_BUDGET
    assert (noted["template"], noted["split"], noted["shard"], noted["seed"]) == ("equality", "test", 0, 1)


def test_shards_are_the_same_bytes_in_any_order(dataset, tmp_path):
    # Of a template and split they come one after another.
    shards = sorted(list_shards(CONFIG), key=lambda shard: (shard.number, shard.split, shard.template))
    shards = [shard for shard in shards if shard.template in {"less_greater", "random"}]
    for shard in shards:
        write_shard(CONFIG, tmp_path, *shard[:3])
        assert (tmp_path / shard.path).read_bytes() == (dataset / shard.path).read_bytes(), shard.path
    first = shards[0]
    (tmp_path / first.path).unlink()
    write_shard(CONFIG, tmp_path, *first[:3])
    assert (tmp_path / first.path).read_bytes() == (dataset / first.path).read_bytes()


def test_splits_can_be_sampled_alone(dataset, tmp_path):
    names = {path.relative_to(tmp_path) for path in sample(CONFIG, tmp_path, ["test"])}
    assert names == {path.relative_to(dataset) for path in (dataset / "data/test").iterdir()}
    assert all((tmp_path / name).read_bytes() == (dataset / name).read_bytes() for name in names)


def test_a_program_is_in_one_shard_only(tmp_path):
    values = {
        "shard_size": 1_000,
        "templates": {"equality": {"train": 3_000, "expression_lengths": [3]}, "random": {"train": 10}},
    }
    config = CONFIG.model_copy(update={"dataset": Dataset.model_validate(values)})
    for number in range(3):
        write_shard(config, tmp_path, "equality", "train", number)
    texts = [pq.read_table(path)["program"].to_pylist() for path in sorted(tmp_path.glob("data/train/*"))]
    assert [len(set(text)) for text in texts] == [1_000] * 3
    assert len({text for shard in texts for text in shard}) == 3_000
    noted = [pq.read_metadata(path).metadata for path in sorted(tmp_path.glob("data/train/*"))]
    first, second, third = (json.loads(each[b"cadmus"])["counts"]["duplicates"] for each in noted)
    assert first < second < third


def test_earlier_shards_must_be_valid(copy):
    path = copy / "data/train/less_greater-0000.parquet"
    second = path.with_name("less_greater-0001.parquet")
    before = second.read_bytes()
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"less_greater-0000\.parquet: .*not readable.*delete it"):
        write_shard(CONFIG, copy, "less_greater", "train", 1)
    path.unlink()
    with pytest.raises(InputError, match=r"less_greater-0000\.parquet: No such file or directory"):
        write_shard(CONFIG, copy, "less_greater", "train", 1)
    write_shard(CONFIG.model_copy(update={"seed": 2}), copy, "less_greater", "train", 0)
    with pytest.raises(InputError, match=r"less_greater-0000\.parquet: sampled with another seed"):
        write_shard(CONFIG, copy, "less_greater", "train", 1)
    assert second.read_bytes() == before


def test_a_shard_beyond_the_plan_is_an_error(tmp_path):
    with pytest.raises(InputError, match="no shard 7 of random for test"):
        write_shard(CONFIG, tmp_path, "random", "test", 7)
