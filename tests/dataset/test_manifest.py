"""The manifest and its checks of the shards."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cadmus import isa
from cadmus.dataset import parquet
from cadmus.dataset.manifest import read_manifest, write_manifest
from cadmus.dataset.reader import read_split
from cadmus.dataset.sampler import Sampler
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
    with pytest.raises(InputError, match=r"random-0000\.parquet: sampled with another seed"):
        write_manifest(CONFIG, copy)


def test_a_program_in_the_wrong_split_is_a_defect(copy):
    sampler = Sampler(CONFIG.dataset, 1, "random", "train", 0)
    drawn = sampler.sample(CONFIG.dataset.test)
    shard = Shard("random", "test", 0, CONFIG.dataset.test)
    parquet.write(copy / shard.path, shard, drawn, CONFIG, sampler.summary())
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
        ("", "not valid JSON"),
        ('{"digest": "1"', "not valid JSON"),
        ("\xff", "not valid JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("9" * 5000, "not readable"),
        ("[1]", "must be a mapping, got"),
        ('{"isa_digest": "0"}', "name: is missing"),
    ],
)
def test_a_damaged_manifest_is_an_error(copy, text, message):
    (copy / "manifest.json").write_text(text)
    with pytest.raises(InputError, match=rf"manifest\.json: {message}.*; write it again$"):
        read_split(copy, "train")


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("seed",), "one", "seed: must be an integer, got 'one'"),
        (("splits",), [], "splits: must be a mapping"),
        (("splits",), {}, "splits: has no train"),
        (("splits", "train", "equality"), 3, r"splits\.train\.equality: must be a mapping, got 3"),
        (("splits", "train", "equality", "kept"), -1, r"train\.equality\.kept: must be at least 0, got -1"),
        (("splits", "train", "equalty"), {}, "no template 'equalty'; did you mean 'equality'"),
        (("files", 0, "sha256"), None, r"files\.0\.sha256: must be text, got None"),
        (("files", 0, "rows"), float("nan"), r"files\.0\.rows: must be an integer, got nan"),
        (("files", 0, "file"), "../../evil.parquet", r"files\.0\.file: must match"),
        (("files", 0, "template"), "equalty", "no template 'equalty'"),
        (("files", 0, "counts"), {}, r"files\.0\.counts\.sampled: is missing"),
        (("shared_between_splits",), None, "shared_between_splits: must be a mapping"),
    ],
)
def test_an_edited_manifest_is_an_error(copy, place, value, message):
    path = copy / "manifest.json"
    manifest = json.loads(path.read_text())
    section = manifest
    for key in place[:-1]:
        section = section[key]
    section[place[-1]] = value
    path.write_text(json.dumps(manifest))
    with pytest.raises(InputError, match=rf"manifest\.json: .*{message}.*; write it again$"):
        read_split(copy, "train")


def _edit_metadata(table, **changes):
    noted = {**json.loads(table.schema.metadata[b"cadmus"]), **changes}
    return table.replace_schema_metadata({b"cadmus": json.dumps(noted)})


def test_unknown_keys_of_an_edited_manifest_are_not_reported(copy):
    path = copy / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["splits"]["train"]["equality"]["lost"] = 10**40
    path.write_text(json.dumps(manifest))
    assert "lost" not in read_manifest(copy)["splits"]["train"]["equality"]


def test_counts_of_unknown_outcomes_are_left_out(copy):
    path = copy / "train/equality-0000.parquet"
    table = pq.read_table(path)
    counts = json.loads(table.schema.metadata[b"cadmus"])["counts"]
    pq.write_table(_edit_metadata(table, counts={**counts, "lost": {}}), path)
    described = write_manifest(CONFIG, copy)["splits"]["train"]["equality"]
    assert described["kept"] == described["programs"]
    assert "lost" not in described


def _with_column(table, name, values):
    index = table.column_names.index(name)
    return table.set_column(index, table.schema.field(name), pa.array(values, table.schema.field(name).type))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda t: t.replace_schema_metadata({b"cadmus": b"{"}), "not valid JSON"),
        (lambda t: t.replace_schema_metadata({b"cadmus": b"\xff"}), "not UTF-8"),
        (lambda t: _edit_metadata(t, template="\ud800"), "not UTF-8"),
        (lambda t: t.replace_schema_metadata({b"cadmus": b"[" * 100_000}), "nested too deeply"),
        (lambda t: t.replace_schema_metadata({b"cadmus": b"[]"}), "must be a mapping"),
        (lambda t: _edit_metadata(t, counts={"kept": 1}), r"counts\.sampled: is missing"),
        (lambda t: _edit_metadata(t, shard="first"), "shard: must be an integer"),
        (lambda t: _with_column(t, "program", ["34+8="] * len(t)), r"program: .* are not true"),
        (lambda t: _with_column(t, "program", ["é="] * len(t)), "program: has characters"),
        (lambda t: _with_column(t, "program", ["34+7=."] * len(t)), "program: has characters"),
        (lambda t: _with_column(t, "prompt_length", [0] * len(t)), "prompt_length: must be 1 to"),
        (lambda t: _with_column(t, "prompt_length", [255] * len(t)), "prompt_length: must be 1 to"),
        (lambda t: _with_column(t, "x", [None] + [1] * (len(t) - 1)), "x, y: missing for some"),
        (lambda t: _with_column(t, "x", [None] * len(t)), "x, y: missing for some"),
    ],
)
def test_a_damaged_shard_is_one_line_with_its_name(copy, damage, message):
    path = copy / "train/equality-0000.parquet"
    pq.write_table(damage(pq.read_table(path)), path)
    with pytest.raises(InputError, match=rf"equality-0000\.parquet: .*{message}.*; delete it and sample"):
        write_manifest(CONFIG, copy)


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
