"""The readers of the README open a dataset in one line, and its SQL counts the programs."""

import importlib
import re
from pathlib import Path

import pytest

from cadmus import pipeline
from cadmus.config import load_config
from cadmus.dataset.manifest import read_manifest
from tests.checkout import ROOT

PAGE = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
LINES = re.findall(r"^\| [^|]+ \| `(.+)` \|$", PAGE, re.MULTILINE)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    config, directory = load_config(ROOT / "tests/tiny.yaml"), tmp_path_factory.mktemp("tiny")
    pipeline.sample(config, directory)
    pipeline.dataset(config, directory)
    return directory


@pytest.mark.parametrize("line", LINES)
def test_one_line_reads_all_programs(dataset, line, tmp_path, monkeypatch):
    module = line[: line.index("(")].rpartition(".")[0]
    package = module.partition(".")[0]
    # Such as pyarrow.parquet, which PyArrow does not import.
    importlib.import_module(module)
    names = {package: importlib.import_module(package)}
    if package == "datasets":
        monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path)
        monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    found = eval(line.replace("results/quick/dataset", str(dataset)), names)
    # The library datasets calls all files the split train.
    programs = found["train"] if package == "datasets" else found
    assert len(programs) == sum(file.rows for file in read_manifest(dataset).files)


def test_the_sql_counts_the_programs(dataset, capsys):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(code.replace("results/quick/dataset", str(dataset)), {})
    printed = capsys.readouterr().out
    assert re.search(r"train +│ equality +│ +600 ", printed)
