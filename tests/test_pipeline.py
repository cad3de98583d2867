"""The five calls from a config to a figure."""

import json
import os
from dataclasses import replace

import polars as pl
import pytest
import torch

from cadmus import pipeline, store
from cadmus.config import load_config
from cadmus.errors import InputError
from cadmus.model import WEIGHTS
from cadmus.train.paths import RunPaths
from tests.checkout import FEW, ROOT

EMPTY = {"digest": "d0", "splits": {}, "files": []}
"""The manifest of a dataset without programs."""


def twice(call, files=()):
    """Call a function twice in this process; the files that it writes or returns are the same."""
    contents = []
    for _ in range(2):
        returned = call()
        written = [*files, *(returned if isinstance(returned, list) else [])]
        contents.append([path.read_bytes() for path in written])
    assert contents[0] == contents[1]
    assert contents[0]
    return returned


# Those of DeepSpeed's imports.
@pytest.mark.filterwarnings("ignore")
def test_five_calls_go_from_a_config_to_a_figure(tmp_path):
    (tmp_path / "few.yaml").write_text(f"name: few\n{FEW}train: {{steps: 5, batch_size: 32, ranks: 1}}\n")
    config = load_config(tmp_path / "few.yaml")
    data, model, results = tmp_path / "dataset", tmp_path / "model", tmp_path / "completions.parquet"
    random = torch.get_rng_state()
    shards = twice(lambda: pipeline.sample(config, data))
    manifest = twice(lambda: pipeline.dataset(config, data), [data / "manifest.json"])
    assert [str(path.relative_to(data)) for path in shards] == [file["file"] for file in manifest["files"]]
    twice(lambda: pipeline.train(config, data, model), [model / WEIGHTS])
    # A training leaves its process as it was.
    assert {"RANK", "MASTER_PORT", "DS_ACCELERATOR"}.isdisjoint(os.environ)
    assert torch.equal(torch.get_rng_state(), random)
    lines = (tmp_path / "training/metrics.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(lines[-1])["step"] == config.train.steps
    completions = twice(lambda: pipeline.evaluate("completions", model, results, data), [results])
    assert pl.read_parquet(results).equals(completions)
    drawn = twice(lambda: pipeline.draw("table3_accuracy", [results], tmp_path / "figures"))
    assert [path.name for path in drawn] == [f"table3_accuracy{end}" for end in (".csv", ".md")]
    assert "equality" in drawn[0].read_text(encoding="utf-8").lower()


def test_a_file_that_is_not_for_metrics_is_found_before_the_training(tmp_path):
    config = load_config(ROOT / "tests/tiny.yaml")
    (tmp_path / "dataset").mkdir()
    store.write_json(
        tmp_path / "dataset/manifest.json", "dataset", {**EMPTY, "config_digest": config.dataset_digest()}
    )
    (tmp_path / "config.yaml").write_text("name: mine\n")
    (tmp_path / "j.jsonl").write_text('{"step": 1, "loss": 2.5}\n')
    paths = RunPaths(tmp_path / "c", tmp_path / "m", tmp_path / "j.jsonl", tmp_path / "s")
    assert pipeline.check_training(config, tmp_path / "dataset", paths) == "d0"
    paths = replace(paths, metrics=tmp_path / "config.yaml")
    with pytest.raises(InputError, match=r"config.yaml: the file of metrics must end in .jsonl"):
        pipeline.check_training(config, tmp_path / "dataset", paths)
