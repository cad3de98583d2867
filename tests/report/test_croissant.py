"""Croissant metadata; its rules are checked by hand, without the package mlcroissant."""

import json

import pyarrow.parquet as pq

from cadmus.dataset.manifest import file_digest, read_manifest
from cadmus.report.croissant import croissant


def test_it_has_the_digest_of_every_file(tiny):
    found = croissant(read_manifest(tiny))
    files = [item for item in found["distribution"] if item["@type"] == "cr:FileObject"]
    assert {file["contentUrl"] for file in files} == {
        str(path.relative_to(tiny)) for path in tiny.rglob("*.parquet")
    }
    for file in files:
        assert file["sha256"] == file_digest(tiny / file["contentUrl"])


def test_its_record_sets_read_the_columns_of_the_files_of_a_split(ruled):
    found = croissant(read_manifest(ruled))
    sets = {item["@id"]: item for item in found["distribution"] if item["@type"] == "cr:FileSet"}
    assert [records["name"] for records in found["recordSet"]] == ["train", "test", "ood"]
    for records in found["recordSet"]:
        sources = [field["source"] for field in records["field"]]
        (files,) = {source["fileSet"]["@id"] for source in sources}
        paths = sorted(ruled.glob(sets[files]["includes"]))
        assert {path.parent.name for path in paths} == {records["name"]}
        for path in paths:
            assert [source["extract"]["column"] for source in sources] == pq.read_schema(path).names


def test_ids_are_unique_and_all_keys_are_in_the_context(ruled):
    found = croissant(read_manifest(ruled))
    fields = [field for records in found["recordSet"] for field in records["field"]]
    ids = [item["@id"] for item in (*found["distribution"], *found["recordSet"], *fields)]
    assert len(set(ids)) == len(ids)
    of_schema = {"name", "description", "license", "version", "keywords", "distribution"}
    of_files = {"contentUrl", "encodingFormat", "sha256"}
    text = json.dumps({key: value for key, value in found.items() if key != "@context"})
    keys: set[str] = set()
    json.loads(text, object_pairs_hook=lambda pairs: keys.update(key for key, _ in pairs))
    assert {key for key in keys if key[0] != "@"} <= {*found["@context"], *of_schema, *of_files}
