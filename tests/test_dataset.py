"""Shards, splits, manifest and reader."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cadmus import isa
from cadmus.config import SPLITS, Dataset, load_config
from cadmus.dataset import parquet
from cadmus.dataset.manifest import read_manifest, write_manifest
from cadmus.dataset.reader import read_split
from cadmus.dataset.sampler import sample
from cadmus.dataset.seen import Seen
from cadmus.dataset.shards import Shard, plan
from cadmus.dataset.splits import hashes, split_of
from cadmus.dataset.writer import write_shard
from cadmus.errors import Defect, InputError
from cadmus.programs import Programs
from cadmus.vm import reference

CONFIG = load_config(Path(__file__).parent / "tiny.yaml")


def write_all(directory, shards):
    for shard in shards:
        write_shard(CONFIG, directory, shard.template, shard.split, shard.number)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    directory = tmp_path_factory.mktemp("dataset")
    write_all(directory, plan(CONFIG))
    write_manifest(CONFIG, directory)
    return directory


def counts_of(path):
    """The outcome counts in the metadata of a shard."""
    return json.loads(pq.read_metadata(path).metadata[b"cadmus"])["counts"]


@pytest.fixture
def copy(dataset, tmp_path):
    """A dataset to damage."""
    for path in dataset.rglob("*.*"):
        target = tmp_path / path.relative_to(dataset)
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(path.read_bytes())
    return tmp_path


def test_shards_have_even_sizes_and_the_counts_of_the_config():
    shards = plan(CONFIG)
    assert [shard.rows for shard in shards if shard[:2] == ("less_greater", "train")] == [500, 500]
    for split, rows in (("train", 4_100), ("validation", 9 * 40), ("test", 9 * 60)):
        assert sum(shard.rows for shard in shards if shard.split == split) == rows


def test_shards_are_the_same_bytes_in_any_order(dataset, tmp_path):
    # Of a template and split they come one after another.
    shards = sorted(plan(CONFIG), key=lambda shard: (shard.number, shard.split, shard.template))
    shards = [shard for shard in shards if shard.template in {"less_greater", "random"}]
    write_all(tmp_path, shards)
    for shard in shards:
        assert (tmp_path / shard.path).read_bytes() == (dataset / shard.path).read_bytes(), shard.path
    first = shards[0]
    (tmp_path / first.path).unlink()
    write_all(tmp_path, [first])
    assert (tmp_path / first.path).read_bytes() == (dataset / first.path).read_bytes()


def test_a_program_is_in_one_shard_only(tmp_path):
    values = {
        "shard_size": 1_000,
        "templates": {"equality": {"train": 3_000, "expression_lengths": [3]}, "random": {"train": 10}},
    }
    config = CONFIG.model_copy(update={"dataset": Dataset.model_validate(values)})
    for number in range(3):
        write_shard(config, tmp_path, "equality", "train", number)
    texts = [pq.read_table(path)["program"].to_pylist() for path in sorted(tmp_path.glob("train/*"))]
    assert [len(set(text)) for text in texts] == [1_000] * 3
    assert len({text for shard in texts for text in shard}) == 3_000
    counts = [counts_of(path) for path in sorted(tmp_path.glob("train/*"))]
    assert counts[0]["duplicates"] < counts[1]["duplicates"] < counts[2]["duplicates"]


def test_a_shard_needs_the_sound_ones_before_it(copy):
    path = copy / "train/less_greater-0000.parquet"
    second = path.with_name("less_greater-0001.parquet")
    before = second.read_bytes()
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"less_greater-0000\.parquet: .*truncated.*delete it"):
        write_shard(CONFIG, copy, "less_greater", "train", 1)
    path.unlink()
    with pytest.raises(InputError, match=r"less_greater-0000\.parquet: no such file"):
        write_shard(CONFIG, copy, "less_greater", "train", 1)
    write_shard(CONFIG.model_copy(update={"seed": 2}), copy, "less_greater", "train", 0)
    with pytest.raises(InputError, match=r"less_greater-0000\.parquet: config_digest: expected"):
        write_shard(CONFIG, copy, "less_greater", "train", 1)
    assert second.read_bytes() == before


def test_polars_reads_the_columns_of_the_specification(dataset):
    table = pl.read_parquet(dataset / "train/less_greater-0000.parquet")
    assert table.columns == ["template", "program", "prompt_length", "x", "y", "shard"]
    assert [str(dtype) for dtype in table.dtypes[1:]] == ["String", "UInt8", "Int16", "Int16", "Int32"]
    assert table["template"].cast(pl.String).unique().to_list() == ["less_greater"]
    assert table["x"].null_count() == 0
    sequences = pl.read_parquet(dataset / "train/basic_sequences-0000.parquet")
    assert sequences["x"].null_count() == len(sequences)
    assert all(reference.run(program).true for program in table["program"])


def test_metadata_says_where_a_shard_comes_from(dataset):
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


def test_splits_are_disjoint_whatever_the_template(dataset):
    texts = {split: set(read_split(dataset, split).programs.to_strings()) for split in SPLITS}
    assert all(texts.values())
    assert not texts["train"] & texts["validation"]
    assert not texts["train"] & texts["test"]
    assert not texts["validation"] & texts["test"]


def test_the_content_of_a_program_decides_its_split(dataset):
    for index, split in enumerate(SPLITS):
        programs = read_split(dataset, split).programs
        assert set(split_of(programs, CONFIG.dataset.eval_fraction).tolist()) == {index}


def test_split_shares_and_independence_of_the_batch():
    texts = [f"{a}{b}+{c}*{d}<" for a in range(10) for b in range(10) for c in range(10) for d in range(10)]
    split = split_of(Programs.from_strings(texts), 0.1)
    assert np.allclose(np.bincount(split) / len(split), [0.8, 0.1, 0.1], atol=0.015)
    alone = [int(split_of(Programs.from_strings([text]), 0.1)[0]) for text in texts[:50]]
    assert alone == split[:50].tolist()
    assert len(np.unique(hashes(Programs.from_strings(texts)))) == len(texts)


def test_manifest_describes_the_dataset(dataset):
    manifest = read_manifest(dataset)
    assert manifest["splits"]["train"]["less_greater"]["programs"] == 1_000
    assert manifest["splits"]["train"]["less_greater"]["rejected"] > 0
    assert set(manifest["shared_between_splits"].values()) == {0}
    assert len(manifest["files"]) == len(plan(CONFIG))


def test_reader_selects_templates(dataset):
    table = read_split(dataset, "test", ["equality", "random"])
    assert table.template.tolist() == ["equality"] * 60 + ["random"] * 60
    assert np.array_equal(table.x[:60], table.y[:60])
    assert table.x.mask[60:].all()
    assert table.y[60:].tolist() == [None] * 60
    with pytest.raises(InputError, match="no test programs of nothing"):
        read_split(dataset, "test", ["nothing"])


def test_a_missing_shard_is_named(copy):
    (copy / "train/random-0000.parquet").unlink()
    with pytest.raises(InputError, match=r"train/random-0000\.parquet: no such file"):
        write_manifest(CONFIG, copy)
    with pytest.raises(InputError, match=r"train/random-0000\.parquet: no such file"):
        read_split(copy, "train")


def test_a_truncated_shard_is_named(copy):
    path = copy / "train/random-0000.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"train/random-0000\.parquet: .*truncated.*delete it"):
        write_manifest(CONFIG, copy)
    with pytest.raises(InputError, match=r"truncated"):
        read_split(copy, "train")


def test_a_shard_of_another_config_is_refused(copy):
    other = CONFIG.model_copy(update={"seed": 2})
    write_shard(other, copy, "random", "train", 0)
    with pytest.raises(InputError, match=r"random-0000\.parquet: config_digest: expected"):
        write_manifest(CONFIG, copy)


def test_a_program_in_the_wrong_split_is_a_defect(copy):
    drawn = sample(CONFIG.dataset, 1, "random", "train", 0, CONFIG.dataset.test)
    parquet.write(
        copy / "test/random-0000.parquet", Shard("random", "test", 0, CONFIG.dataset.test), drawn, CONFIG, {}
    )
    with pytest.raises(Defect, match="belong to another split"):
        write_manifest(CONFIG, copy)


def test_a_shard_in_the_place_of_another_is_refused(copy):
    path = copy / "train/random-0000.parquet"
    path.write_bytes((copy / "train/equality-0000.parquet").read_bytes())
    with pytest.raises(InputError, match=r"changed since the manifest was written"):
        read_split(copy, "train")
    with pytest.raises(InputError, match=r"template: expected random, got equality; delete it"):
        write_manifest(CONFIG, copy)


def test_other_parquet_files_are_no_shards(copy):
    path = copy / "train/random-0000.parquet"
    for table in (pq.read_table(path).replace_schema_metadata(), pq.read_table(path).drop_columns("x")):
        pq.write_table(table, path)
        with pytest.raises(InputError, match="not a Cadmus shard"):
            write_manifest(CONFIG, copy)
        with pytest.raises(InputError, match="not a Cadmus shard"):
            read_split(copy, "train")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a readable manifest"),
        ('{"digest": "1"', "not a readable manifest"),
        ("[1]", "config_digest: missing, so this is not a manifest"),
        ('{"isa_digest": "0"}', "config_digest: missing, so this is not a manifest"),
    ],
)
def test_a_damaged_manifest_is_named(copy, text, message):
    (copy / "manifest.json").write_text(text)
    with pytest.raises(InputError, match=rf"manifest\.json: {message}.*; write it again$"):
        read_split(copy, "train")


def test_no_two_shards_have_one_name():
    paths = [shard.path for shard in plan(CONFIG)]
    assert len(set(paths)) == len(paths)


def test_a_shard_of_another_instruction_set_is_refused(copy):
    path = copy / "train/random-0000.parquet"
    table = pq.read_table(path)
    noted = table.schema.metadata[b"cadmus"].replace(isa.digest().encode(), b"0" * 16)
    pq.write_table(table.replace_schema_metadata({b"cadmus": noted}), path)
    with pytest.raises(
        InputError, match=r"random-0000\.parquet: isa_digest: expected .*, got 0000000000000000"
    ):
        write_manifest(CONFIG, copy)


def test_a_dataset_of_another_instruction_set_is_refused(copy):
    path = copy / "manifest.json"
    path.write_text(path.read_text().replace(isa.digest(), "0" * 16))
    with pytest.raises(InputError, match="sampled with the instruction set 0000000000000000"):
        read_split(copy, "train")


def test_a_shard_that_cannot_be_written_leaves_nothing(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    with pytest.raises(InputError, match="cannot write"):
        write_shard(CONFIG, blocked, "random", "test", 0)
    assert list(tmp_path.iterdir()) == [blocked]


def test_shards_beyond_the_plan_are_refused(tmp_path):
    with pytest.raises(InputError, match="no shard 7 of random for test"):
        write_shard(CONFIG, tmp_path, "random", "test", 7)


def test_programs_survive_arrow():
    texts = ["", "1", "34+7=", "", "u2b"]
    programs = Programs.from_strings(texts)
    assert Programs.from_arrow(programs.to_arrow()).to_strings() == texts
    assert Programs.from_arrow(programs.to_arrow().slice(1, 3)).to_strings() == texts[1:4]


@given(st.lists(st.lists(st.integers(0, 60) | st.integers(2**64 - 3, 2**64 - 1))))
def test_seen_tells_what_is_new(batches):
    seen, before = Seen(sum(map(len, batches))), set()
    for batch in batches:
        new = seen.add(np.array(batch, np.uint64)).tolist()
        for value, is_new in zip(batch, new, strict=True):
            # 0 marks a free place, so it counts as 1.
            assert is_new == (max(value, 1) not in before)
            before.add(max(value, 1))
