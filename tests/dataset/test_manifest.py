"""The manifest, its checks of the shards, and reading by it."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cadmus.dataset.manifest import read_manifest, read_split, write_manifest
from cadmus.errors import InputError
from tests import forging
from tests.dataset.conftest import CONFIG


def _with_column(table, name, values):
    index = table.column_names.index(name)
    return table.set_column(index, table.schema.field(name), pa.array(values, table.schema.field(name).type))


def _edit_metadata(table, **changes):
    noted = {**json.loads(table.schema.metadata[b"cadmus"]), **changes}
    return table.replace_schema_metadata({b"cadmus": json.dumps(noted)})


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda t: t.replace_schema_metadata({b"cadmus": b"{"}), "not readable"),
        (lambda t: t.drop_columns("x"), "other columns"),
        (lambda t: _edit_metadata(t, template="random"), r"another template \(random, .*"),
        (lambda t: _edit_metadata(t, shard=1), "another number"),
        (lambda t: _edit_metadata(t, isa_digest="0" * 16), "another instruction set"),
        (lambda t: _edit_metadata(t, config_digest="0" * 16), "another seed or section dataset"),
        (lambda t: t.slice(1), "another number of programs"),
        (lambda t: _edit_metadata(t, counts={"kept": -1}), r"counts\.kept: must be greater than or"),
        (lambda t: _edit_metadata(t, counts={"kept": 60}), "counts: must be of duplicates, duplicates_kept"),
        (lambda t: _edit_metadata(t, ood={"mine": 1}), r"another list of OOD rules \(\['mine'\]"),
        (lambda t: _with_column(t, "x", [None, *t["x"].to_pylist()[1:]]), "x: must be null in 0 rows"),
        (lambda t: _with_column(t, "split", ["train"] * len(t)), "split: must be test in all rows"),
        (lambda t: _with_column(t, "number", [1, 0, *range(2, len(t))]), "2 programs have other numbers"),
        (lambda t: _with_column(t, "program", ["34+8="] * len(t)), "are not true"),
        (lambda t: _with_column(t, "program", ["34+7="] * len(t)), "belong to another split"),
        (lambda t: _with_column(t, "prompt_length", [0] * len(t)), "have no prompt"),
    ],
)
def test_a_wrong_shard_is_one_line_with_its_name(copy, damage, message):
    path = copy / "data/test/equality-0000.parquet"
    pq.write_table(damage(pq.read_table(path)), path)
    with pytest.raises(InputError, match=rf"equality-0000\.parquet: .*{message}.*; delete it and sample"):
        write_manifest(CONFIG, copy)


@pytest.mark.parametrize(
    ("column", "value", "problem"),
    [
        ("program", "34.7=", r"program: row 3 has a character that is not an instruction"),
        ("program", "1" * 251, r"program: row 3 has more than 250 instructions"),
        ("prompt_length", 0, r"program: row 3 has no prompt"),
        ("template", "random", r"not readable \(template: must be equality in all rows"),
    ],
)
def test_a_shard_with_another_digest_in_the_manifest_is_checked(copy, column, value, problem):
    path = copy / "data/test/equality-0000.parquet"
    table = pq.read_table(path)
    values = table[column].to_pylist()
    values[3] = value
    pq.write_table(_with_column(table, column, values), path)
    forging.seal_all(path)
    with pytest.raises(InputError, match=rf"equality-0000\.parquet: {problem}.*; write the manifest again"):
        read_split(copy, "test")


def test_a_dataset_of_an_earlier_version_is_one_line(copy):
    def change(tree):
        for file in tree["files"]:
            file["file"] = file["file"].removeprefix("data/")

    forging.edit(copy / "manifest.json", change)
    message = (
        r"manifest\.json: files: an earlier version of Cadmus sampled them; sample it again: `make run`, or"
    )
    for read in (read_manifest, lambda directory: read_split(directory, "test")):
        with pytest.raises(InputError, match=message):
            read(copy)


def test_templates_are_selected(dataset):
    table = read_split(dataset, "test", ["equality", "random"])
    assert table.template.tolist() == ["equality"] * 60 + ["random"] * 60
    assert np.array_equal(table.x[:60], table.y[:60])
    assert table.x.mask[60:].all()
    assert table.y[60:].tolist() == [None] * 60
    with pytest.raises(InputError, match="no test programs of nothing"):
        read_split(dataset, "test", ["nothing"])
