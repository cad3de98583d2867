"""The manifest and its checks of the shards."""

import pyarrow.parquet as pq
import pytest

from cadmus import isa
from cadmus.dataset import parquet
from cadmus.dataset.manifest import read_manifest, write_manifest
from cadmus.dataset.reader import read_split
from cadmus.dataset.sampler import sample
from cadmus.dataset.shards import Shard, plan
from cadmus.dataset.writer import write_shard
from cadmus.errors import Defect, InputError
from tests.dataset.conftest import CONFIG


def test_manifest_describes_the_dataset(dataset):
    manifest = read_manifest(dataset)
    assert manifest["splits"]["train"]["less_greater"]["programs"] == 1_000
    assert manifest["splits"]["train"]["less_greater"]["rejected"] > 0
    assert set(manifest["shared_between_splits"].values()) == {0}
    assert len(manifest["files"]) == len(plan(CONFIG))


def test_a_missing_shard_is_an_error(copy):
    (copy / "train/random-0000.parquet").unlink()
    with pytest.raises(InputError, match=r"train/random-0000\.parquet: no such file"):
        write_manifest(CONFIG, copy)
    with pytest.raises(InputError, match=r"train/random-0000\.parquet: no such file"):
        read_split(copy, "train")


def test_a_truncated_shard_is_an_error(copy):
    path = copy / "train/random-0000.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"train/random-0000\.parquet: .*truncated.*delete it"):
        write_manifest(CONFIG, copy)
    with pytest.raises(InputError, match=r"truncated"):
        read_split(copy, "train")


def test_a_shard_of_another_config_is_rejected(copy):
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


def test_a_misplaced_shard_is_rejected(copy):
    path = copy / "train/random-0000.parquet"
    path.write_bytes((copy / "train/equality-0000.parquet").read_bytes())
    with pytest.raises(InputError, match=r"changed since the manifest was written"):
        read_split(copy, "train")
    with pytest.raises(InputError, match=r"template: expected random, got equality; delete it"):
        write_manifest(CONFIG, copy)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a readable manifest"),
        ('{"digest": "1"', "not a readable manifest"),
        ("[1]", "config_digest: missing, so this is not a manifest"),
        ('{"isa_digest": "0"}', "config_digest: missing, so this is not a manifest"),
    ],
)
def test_a_damaged_manifest_is_an_error(copy, text, message):
    (copy / "manifest.json").write_text(text)
    with pytest.raises(InputError, match=rf"manifest\.json: {message}.*; write it again$"):
        read_split(copy, "train")


def test_a_shard_of_another_instruction_set_is_rejected(copy):
    path = copy / "train/random-0000.parquet"
    table = pq.read_table(path)
    noted = table.schema.metadata[b"cadmus"].replace(isa.digest().encode(), b"0" * 16)
    pq.write_table(table.replace_schema_metadata({b"cadmus": noted}), path)
    with pytest.raises(
        InputError, match=r"random-0000\.parquet: isa_digest: expected .*, got 0000000000000000"
    ):
        write_manifest(CONFIG, copy)


def test_a_dataset_of_another_instruction_set_is_rejected(copy):
    path = copy / "manifest.json"
    path.write_text(path.read_text().replace(isa.digest(), "0" * 16))
    with pytest.raises(InputError, match="sampled with the instruction set 0000000000000000"):
        read_split(copy, "train")
