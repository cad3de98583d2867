"""The five calls from a config to a figure."""

import json

import polars as pl
import pytest

from cadmus import pipeline
from cadmus.config import load_config
from tests.checkout import ROOT


# Those of DeepSpeed's imports.
@pytest.mark.filterwarnings("ignore")
def test_five_calls_go_from_a_config_to_a_figure(tmp_path):
    config = load_config(ROOT / "tests/tiny.yaml")
    data, model, results = tmp_path / "dataset", tmp_path / "model", tmp_path / "completions.parquet"
    shards = pipeline.sample(config, data)
    manifest = pipeline.dataset(config, data)
    assert [str(path.relative_to(data)) for path in shards] == [file["file"] for file in manifest["files"]]
    pipeline.train(config, data, model)
    lines = (tmp_path / "training/metrics.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(lines[-1])["step"] == config.train.steps
    completions = pipeline.evaluate("completions", model, results, data, settings={"programs": 10})
    assert pl.read_parquet(results).equals(completions)
    drawn = pipeline.draw("table3_accuracy", [results], tmp_path / "figures")
    assert [path.name for path in drawn] == [f"table3_accuracy{end}" for end in (".csv", ".md")]
    assert "equality" in drawn[0].read_text(encoding="utf-8").lower()
