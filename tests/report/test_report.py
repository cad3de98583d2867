"""The report of a dataset: text, figures and errors."""

import json
import shutil

import matplotlib.image
import polars as pl
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from cadmus.cli.main import cadmus
from cadmus.config import OOD, parse_config
from cadmus.dataset.manifest import read_manifest
from cadmus.errors import InputError
from cadmus.report import FIGURES
from cadmus.report.report import write_report
from tests.report.conftest import VALUES, write


@pytest.mark.parametrize("name", ["tiny", "ruled"])
def test_the_command_writes_the_report_and_its_figures(name, request):
    directory = request.getfixturevalue(name)
    done = CliRunner().invoke(cadmus, ["report", str(directory)], catch_exceptions=False)
    names = ("report.md", "README.md", "croissant.json")
    assert done.output == "".join(f"{directory / name}\n" for name in names)
    text = (directory / "report.md").read_text()
    for figure in FIGURES:
        stem = directory / "report" / figure
        assert stem.with_suffix(".pdf").read_bytes().startswith(b"%PDF")
        assert min(matplotlib.image.imread(stem.with_suffix(".png")).shape[:2]) > 200
        assert len(pl.read_csv(stem.with_suffix(".csv"))) > 1
        assert text.count(f"(report/{figure}.") == 3
    assert ("## OOD rules" in text) == ("Excluded by an OOD rule" in text) == (name == "ruled")
    tables = [line for line in text.splitlines() if line.startswith("|")]
    manifest = read_manifest(directory)
    for split, templates in manifest["splits"].items():
        for template, counts in templates.items():
            start = f"| {template.replace('_', ' ')} | {counts['programs']:,} | {counts['distinct']:,} | "
            assert any(line.startswith(start) for line in tables), (split, template)


def test_a_shard_changed_after_its_manifest_is_refused(tiny, tmp_path):
    copy = shutil.copytree(tiny, tmp_path / "copy", ignore=shutil.ignore_patterns("report*", "README.md"))
    path = copy / "train/random-0000.parquet"
    table = pq.read_table(path)
    pq.write_table(table.take(list(reversed(range(len(table))))), path)
    before = sorted(copy.rglob("*"))
    with pytest.raises(InputError, match=r"random-0000\.parquet: changed since the manifest was written"):
        write_report(copy)
    assert sorted(copy.rglob("*")) == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dataset": {"values": 3}}, "dataset: .*"),
        ({"name": "<script>"}, "name: must match .*, got '<script>'"),
        ({"shared_between_splits": {"<script>": 0}}, "shared_between_splits.*must match .*"),
    ],
)
def test_an_edited_manifest_is_refused(tiny, tmp_path, changes, message):
    copy = shutil.copytree(tiny, tmp_path / "copy", ignore=shutil.ignore_patterns("report*", "README.md"))
    path = copy / "manifest.json"
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps({**manifest, **changes}))
    before = sorted(copy.rglob("*"))
    with pytest.raises(InputError, match=rf"manifest\.json: {message}; write it again"):
        write_report(copy)
    assert sorted(copy.rglob("*")) == before


def test_rules_are_listed_with_what_they_matched(ruled):
    write_report(ruled)
    text = (ruled / "report.md").read_text()
    matched = read_manifest(ruled)["ood"]["small"]
    assert f"| small | `values: [[-20, -15]]` (either) | equality {matched['equality']:,} |" in text
    assert "| maximum | `contains: ['x\\|', 'x']` |" in text


def test_a_report_is_the_same_bytes_each_time(ruled):
    def written():
        write_report(ruled)
        return {path: path.read_bytes() for path in (ruled / "report").iterdir()} | {
            name: (ruled / name).read_bytes() for name in ("report.md", "README.md", "croissant.json")
        }

    assert written() == written()


def test_a_dataset_that_compares_nothing_has_a_report(tmp_path):
    templates = {"basic_sequences": {"train": 20}}
    dataset = {"templates": templates, "validation": 0, "test": 0}
    write(parse_config({**VALUES, "dataset": dataset}, "x.yaml"), tmp_path)
    write_report(tmp_path)
    assert (tmp_path / "report/values.png").exists()
    assert OOD not in (tmp_path / "report.md").read_text()


def test_a_missing_dataset_or_a_truncated_shard_is_named(ruled, tmp_path):
    with pytest.raises(InputError, match="is not a finished dataset"):
        write_report(tmp_path)
    for path in ruled.rglob("*.*"):
        target = tmp_path / path.relative_to(ruled)
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(path.read_bytes())
    (tmp_path / "report.md").unlink(missing_ok=True)
    shard = tmp_path / "test/equality-0000.parquet"
    shard.write_bytes(shard.read_bytes()[:-9])
    with pytest.raises(InputError, match=r"equality-0000\.parquet: .*truncated"):
        write_report(tmp_path)
    assert not (tmp_path / "report.md").exists()


def test_a_manifest_without_a_default_has_a_report(tiny, tmp_path):
    shutil.copytree(tiny, tmp_path / "dataset")
    path = tmp_path / "dataset/manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["dataset"]["eval_fraction"]
    path.write_text(json.dumps(manifest))
    write_report(tmp_path / "dataset")
    assert "5%" in (tmp_path / "dataset/README.md").read_text()
