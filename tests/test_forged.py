"""Files with a seal that anyone can compute: what they hold is valid, or refused in one line."""

import importlib
import math
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pytest
import torch
from safetensors.torch import load_file, save_file

from cadmus import columns, experiments, pipeline, store
from cadmus.columns import COUNT, FRACTION, NAME, Column, Table
from cadmus.config import parse_config
from cadmus.dataset.manifest import Described, read_manifest_as, read_split
from cadmus.errors import InputError
from cadmus.model.export import Trained, load_export, read_metadata_as, save_export
from cadmus.model.gpt import GPT
from cadmus.model.inference import Cadmus
from cadmus.study.comparison import compare
from cadmus.study.results import read as read_study
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


class Artifact(NamedTuple):
    """A file, how often it is forged, and how it is read in its directory."""

    path: str
    times: int
    read: Callable[[Path], object]


def draw(name: str) -> Callable[[Path], object]:
    """Return a reader of the first results of a figure or table that computes what it shows."""
    figure = experiments.figures()[name]
    module = importlib.import_module(figure.module or f"cadmus.figures.{name}")
    show = module.data if hasattr(module, "data") else module.table

    def read(directory: Path) -> object:
        results = store.read_results(directory / f"{name}.parquet", experiments.table(figure.sources[0]))[0]
        return show(results, *([completions()] if figure.sources[1:] == ("completions",) else []))

    return read


DRAWN = [
    name
    for name, figure in experiments.figures().items()
    if figure.sources and figure.sources[0] != "metrics"
]


OF_LABS = labs.samples("FORGED")
"""Functions that write and read a file, by its name."""


def read_model(directory: Path) -> object:
    read_metadata_as(Trained, directory / "model")
    return Cadmus.load(directory / "model").complete(["34+"], 8, samples=3, temperature=1.0)


def read_dataset(directory: Path) -> object:
    read_manifest_as(Described, directory / "dataset")
    return read_split(directory / "dataset", "test")


ARTIFACTS = {
    "metadata": Artifact("model/meta.json", 40, read_model),
    "weights": Artifact("model/model.safetensors", 24, read_model),
    "manifest": Artifact("dataset/manifest.json", 40, read_dataset),
    "shard": Artifact("dataset/data/test/equality-0000.parquet", 25, read_dataset),
    "study": Artifact("study.parquet", 20, lambda d: compare(read_study(d / "study.parquet"))),
    "metrics": Artifact(
        "metrics.jsonl",
        30,
        lambda d: store.read_results(d / "metrics.jsonl", experiments.table("metrics")),
    ),
    **{
        name: Artifact(name, 10, lambda d, name=name, read=read: read(d / name))  # type: ignore[misc]
        for name, (_, read) in OF_LABS.items()
    },
    **{name: Artifact(f"{name}.parquet", 8, draw(name)) for name in DRAWN},
}


@pytest.fixture(scope="module")
def valid(tmp_path_factory) -> Path:
    """A directory with valid files, and a module that no file may import."""
    place = tmp_path_factory.mktemp("valid")
    torch.manual_seed(0)
    save_export(GPT(RUN.model), place / "model", {**TRAINED, "config": RUN.model_dump()})
    pipeline.sample(RUN, place / "dataset")
    pipeline.dataset(RUN, place / "dataset")
    shutil.copy(ROOT / "docs/findings/batch/study.parquet", place)
    store.write_lines(place / "metrics.jsonl", "metrics", results_of("metrics").to_dicts())
    for name, (write, _) in OF_LABS.items():
        write(place / name)
    for name in DRAWN:
        source = experiments.figures()[name].sources[0]
        written(place / f"{name}.parquet", results_of(source), experiments.table(source))
    forging.plant(place)
    return place


@pytest.fixture
def copy(valid, tmp_path, monkeypatch) -> Path:
    """A copy of the valid files, and the working directory."""
    place = shutil.copytree(valid, tmp_path / "copy")
    monkeypatch.chdir(place)
    monkeypatch.syspath_prepend(place)
    return place


@pytest.mark.parametrize("name", ARTIFACTS)
# Degenerate results, such as those of one row, have intervals that numpy warns of.
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_forged_files_are_valid_or_refused_in_one_line(copy, tmp_path, name) -> None:
    artifact, lines = ARTIFACTS[name], list[str]()
    path = copy / artifact.path
    artifact.read(copy)
    kept = shutil.copytree(copy, tmp_path / "kept")
    for number in range(artifact.times):
        change = forging.forge(path, random.Random(f"{name} {number}"))
        try:
            artifact.read(copy)
        except InputError as error:
            lines.append(str(error))
        except Exception as error:
            raise AssertionError(f"{number}: {change}") from error
        assert not (copy / forging.TRACE).exists(), f"{number}: {change} runs code"
        shutil.rmtree(copy)
        shutil.copytree(kept, copy)
    assert len(lines) > artifact.times / 4
    assert not [line for line in lines if "\n" in line or str(copy) not in line]


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
