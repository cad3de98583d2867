"""Files with a seal that anyone can compute: what they hold is valid, or refused in one line."""

import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
from safetensors.torch import load_file, save_file

from cadmus import columns, experiments, pipeline, store
from cadmus.columns import COUNT, FRACTION, NAME, Column, Table
from cadmus.config import parse_config
from cadmus.dataset.manifest import Described, read_manifest_as, read_split
from cadmus.errors import InputError
from cadmus.model.export import Snapshot, Trained, load_export, read_metadata_as, save_export
from cadmus.model.gpt import GPT
from cadmus.model.inference import Cadmus
from cadmus.study.comparison import compare
from cadmus.study.results import read as read_study
from cadmus.train.paths import find_snapshots
from tests import forging, labs
from tests.checkout import ROOT
from tests.figures.test_figures import completions, results_of, written
from tests.pages.test_model import TRAINED

VALUES = {
    "name": "rules",
    "dataset": {
        "validation": 0,
        "test": 20,
        "shard_size": 60,
        "ood": {"small": {"values": [[-20, -15]]}, "maximum": {"contains": ["x|", "x"]}},
        "ood_programs": 25,
        "templates": {"equality": {"train": 100}, "basic_sequences": {"train": 50}},
    },
    "model": {"layers": 1, "width": 8, "heads": 2, "mlp": 16},
    "train": {"steps": 1},
}
RUN = parse_config(VALUES, "x.yaml")


def read_model(directory: Path) -> object:
    read_metadata_as(Trained, directory / "model")
    return Cadmus.load(directory / "model").complete(["34+"], 8, samples=3, temperature=1.0)


def read_dataset(directory: Path) -> object:
    read_manifest_as(Described, directory / "dataset")
    return read_split(directory / "dataset", "test")


def results(source: str, suffix: str) -> Callable[[Path], object]:
    return lambda directory: store.read_results(directory / f"{source}{suffix}", experiments.table(source))


OF_LABS = labs.samples("FORGED")
"""Functions that write and read a file, by its name."""
READERS: dict[str, Callable[[Path], object]] = {
    "model/meta.json": read_model,
    "model/model.safetensors": read_model,
    "dataset/manifest.json": read_dataset,
    "dataset/data/test/equality-0000.parquet": read_dataset,
    "study.parquet": lambda directory: compare(read_study(directory / "study.parquet")),
    "snapshots/step-00000003/meta.json": lambda directory: [
        read_metadata_as(Snapshot, path, "give others") for path in find_snapshots(directory / "snapshots")
    ],
    "metrics.jsonl": results("metrics", ".jsonl"),
    "completions.parquet": results("completions", ".parquet"),
    **{name: lambda directory, name=name, of=of: of(directory / name) for name, (_, of) in OF_LABS.items()},
}
"""Readers of the files of a directory, by path."""


@pytest.fixture(scope="module")
def valid(tmp_path_factory) -> Path:
    """A directory with valid files, and a module that no file may import."""
    place = tmp_path_factory.mktemp("valid")
    torch.manual_seed(0)
    for name in ("model", "snapshots/step-00000003"):
        save_export(GPT(RUN.model), place / name, {**TRAINED, "config": RUN.model_dump()})
    pipeline.sample(RUN, place / "dataset")
    pipeline.dataset(RUN, place / "dataset")
    shutil.copy(ROOT / "docs/findings/batch/study.parquet", place)
    store.write_lines(place / "metrics.jsonl", "metrics", results_of("metrics").to_dicts())
    written(place / "completions.parquet", completions(), experiments.table("completions"))
    for name, (write, _) in OF_LABS.items():
        write(place / name)
    forging.plant(place)
    return place


@pytest.fixture
def copy(valid, tmp_path, monkeypatch) -> Path:
    """A copy of the valid files, and the working directory."""
    place = shutil.copytree(valid, tmp_path / "copy")
    monkeypatch.chdir(place)
    monkeypatch.syspath_prepend(place)
    return place


@pytest.mark.parametrize("name", READERS)
# Results of one row have intervals that numpy warns of.
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_forged_files_are_valid_or_refused_in_one_line(copy, name) -> None:
    read, refused = READERS[name], dict[str, str]()
    read(copy)
    for forgery, contents in forging.forgeries(copy / name).items():
        (copy / name).write_bytes(contents)
        forging.seal_all(copy / name)
        try:
            read(copy)
        except InputError as error:
            refused[forgery] = str(error)
        except Exception as error:
            raise AssertionError(forgery) from error
    assert refused.keys() >= {"empty", "truncated", "a list", "deep", "not UTF-8"}
    assert [line for line in refused.values() if "\n" in line or str(copy) not in line] == []


@pytest.mark.parametrize("name", [f"{forging.MODULE}:Class", "os:getpgid", "torch.nn:Linear"])
def test_a_model_cannot_name_code_that_runs(copy, name) -> None:
    def change(tree: Any) -> None:
        for sizes in (tree["model"], tree["config"]["model"]):
            sizes["mixer"] = name

    forging.edit(copy / "model/meta.json", change)
    with pytest.raises(InputError, match=r"meta.json: model.mixer: this version has no modules in place of"):
        load_export(copy / "model")
    assert not (copy / forging.TRACE).exists()


@pytest.mark.parametrize(
    "file",
    [
        *("../test/equality-0000.parquet", "/etc/passwd", "data/test/../../x.parquet"),
        *("data/test/random-0000.parquet", 3),
    ],
)
def test_a_dataset_cannot_name_files_outside(copy, file) -> None:
    def change(tree: Any) -> None:
        next(each for each in tree["files"] if each["split"] == "test")["file"] = file

    shutil.copytree(copy / "dataset/data/test", copy / "test", dirs_exist_ok=True)
    forging.edit(copy / "dataset/manifest.json", change)
    with pytest.raises(InputError, match=r"manifest\.json: files\.\d+\.file: must be "):
        read_split(copy / "dataset", "test")


def test_a_name_cannot_be_markup(copy) -> None:
    forging.edit(copy / "dataset/manifest.json", lambda tree: tree.update(name="<script>alert(1)</script>"))
    with pytest.raises(InputError, match=r"manifest\.json: name: must match pattern"):
        read_manifest_as(Described, copy / "dataset")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda of: of.fill_(math.nan), "final_layer_norm.weight: has a weight that is NaN or infinite"),
        (lambda of: of[0].fill_(-math.inf), "final_layer_norm.weight: has a weight that is NaN or infinite"),
        (lambda of: of.fill_(1e38), "the logits are NaN or too large"),
    ],
)
def test_a_model_without_numbers_is_refused(copy, change, problem) -> None:
    path = copy / "model/model.safetensors"
    weights = load_file(path)
    change(weights["gpt_neox.final_layer_norm.weight"])
    save_file(weights, path)
    (copy / "model/meta.json").unlink()
    with pytest.raises(InputError, match=rf"model\.safetensors: .*{problem}"):
        load_export(copy / "model")


def test_a_model_whose_programs_never_end_is_refused(copy) -> None:
    forging.edit(copy / "model/meta.json", lambda tree: tree["config"]["dataset"].update(max_length=10**9))
    with pytest.raises(InputError, match=r"config\.dataset\.max_length: must be less than or equal to 250"):
        Cadmus.load(copy / "model")


def test_a_small_file_cannot_hold_endless_rows(copy, monkeypatch) -> None:
    table = Table({"program": NAME})
    store.write_parquet("a.parquet", "results", pl.DataFrame({"program": ["a"] * 101}), {})
    assert len(store.read_results("a.parquet", table)[0]) == 101
    monkeypatch.setattr(columns, "MOST_ROWS", 100)
    with pytest.raises(InputError, match=r"a\.parquet: not readable \(101 rows; at most 100 are read\)"):
        store.read_results("a.parquet", table)


TABLE = Table(
    {
        "name": NAME,
        "count": COUNT,
        "share": FRACTION.or_null(),
        "more": Column(int, null=True, optional=True),
    },
    {"count: must be at most 10": pl.col("count") <= 10},
)
ROWS = pl.DataFrame({"name": ["a", "b"], "count": [1, 2], "share": [0.5, None]})


def test_rounding_is_not_out_of_bounds() -> None:
    rounded = ROWS.with_columns(share=pl.Series([1 + 1e-12, -1e-12]))
    assert TABLE.checked(rounded)["share"].to_list() == [1, 0]


def test_a_table_has_its_declared_types() -> None:
    assert TABLE.checked(ROWS.with_columns(other=1)).columns == [*TABLE.columns, "other"]
    narrow = ROWS.with_columns(pl.col("name").cast(pl.Categorical), pl.col("count").cast(pl.UInt8), share=1)
    assert TABLE.checked(narrow).schema == TABLE.schema


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (ROWS.drop("count"), "no column 'count'; needs name, count, share, more; has name, share"),
        (ROWS.head(0), "has no rows"),
        (ROWS.with_columns(count=pl.Series([1, None])), "count: null in row 1"),
        (ROWS.with_columns(count=1.5), "count: must have type Int64, has Float64"),
        (ROWS.with_columns(count=pl.Series([1, -1])), "count: must be at least 0, got -1 in row 1"),
        (ROWS.with_columns(count=pl.lit(2**63, pl.UInt64)), "count: must have type Int64, has other values"),
        (ROWS.with_columns(count=11), "count: must be at most 10, unlike in row 0"),
        (ROWS.with_columns(share=math.nan), "share: not finite in row 0"),
        (ROWS.with_columns(share=1.01), "share: must be at most 1, got 1.01 in row 0"),
        (ROWS.with_columns(share=pl.lit([1.0])), "share: must have type Float64, has List(Float64)"),
        (ROWS.with_columns(name=pl.lit("<b>")), "name: must be a name of letters, digits and _, got '<b>'"),
        (ROWS.with_columns(name=pl.lit("a" * 501)), "name: must have at most 500 characters, got 'aaa"),
    ],
)
def test_a_table_of_other_values_is_refused(rows, problem) -> None:
    with pytest.raises(InputError) as caught:
        TABLE.checked(rows)
    assert str(caught.value).startswith(problem)
