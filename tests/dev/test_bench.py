"""Benchmarks measure what their published results have."""

import json
import subprocess
import sys

import pytest
import torch

from cadmus.config import Model
from cadmus.experiments.probe import Settings
from cadmus.model.export import save_export
from cadmus.model.gpt import GPT
from dev.bench import data, models, system
from tests.checkout import ROOT

LITTLE_TRAINING = """
import json, torch
from dev.bench import training
training.REPEATS, training.MATMUL = 1, 64
transformers_step = training._transformers_step

def failing(sizes, device, batch, autocast):
    if batch.tokens.shape[0] == 36:
        raise torch.OutOfMemoryError("out of memory;\\ntried to allocate 100 GB")
    return transformers_step(sizes, device, batch, autocast)

training._transformers_step = failing
print(json.dumps(training.train("tests/tiny.yaml", 36)))
"""
SIZES = Model(layers=1, width=16, heads=2, mlp=32)
SETTINGS = Settings(train_programs=60, validation_programs=20, test_programs=20, inverse_regularisation=[1.0])


def published(name: str) -> set[str]:
    return set(json.loads((ROOT / f"docs/results/bench_{name}.json").read_text()))


@pytest.fixture
def model(tmp_path):
    torch.manual_seed(0)
    save_export(GPT(SIZES), SIZES, tmp_path / "model", {})
    return tmp_path / "model"


@pytest.mark.parametrize("name", ["vm", "templates", "tasks"])
def test_data_is_measured(monkeypatch, name) -> None:
    for constant, value in {"REPEATS": 1, "TEMPLATE_PROGRAMS": 200, "PROGRAMS": 10_000, "TASKS": 20}.items():
        monkeypatch.setattr(data, constant, value)
    measured = getattr(data, name)()
    assert set(measured) == published(name)
    assert all(value >= 0 for value in measured.values())


def test_rates_of_a_dataset_exclude_the_start(monkeypatch) -> None:
    def seconds(*arguments):
        if "-c" in arguments:
            return 5.0
        return 12.0 if "manifest" in arguments else 10.0 if "train" in arguments else 2.0

    monkeypatch.setattr(data, "_cpu_seconds", seconds)
    measured = data.dataset(ROOT / "tests/tiny.yaml")
    assert (measured["start_seconds"], measured["start_torch_seconds"]) == (2, 5)
    # 800 programs in two shards and 300 in one; each shard takes 8 seconds after its start.
    assert measured["equality_per_second"] == 800 / 16
    assert measured["subroutines_per_second"] == round(300 / 8)
    assert measured["manifest_per_second"] == 5_000 / 10
    assert set(measured) == published("dataset")


def test_completion_agrees_with_transformers(monkeypatch, model) -> None:
    monkeypatch.setattr(models, "EACH", 3)
    measured = models.decode(model)
    assert set(measured) == published("decode")
    assert measured["same_completions"] == 1


def test_probes_agree_with_scikit_learn(monkeypatch, model) -> None:
    changes = {"train_programs": 1_000, "test_programs": 1_000, "inverse_regularisation": [0.01, 0.1]}
    monkeypatch.setattr(models, "PROBED", SETTINGS.model_copy(update=changes))
    measured = models.probe(model)
    assert set(measured) == published("probe")
    assert abs(measured["cadmus_accuracy"] - measured["scikit_learn_accuracy"]) < 0.005


def test_work_next_to_busy_processes_is_measured(monkeypatch, model) -> None:
    changes = {"SECONDS": 0.3, "SETTLE": 0.0, "REPEATS": 1, "PROMPTS": 5, "PROBED": SETTINGS}
    for constant, value in changes.items():
        monkeypatch.setattr(system, constant, value)
    measured = system.busy(ROOT / "tests/tiny.yaml", model)
    assert set(measured) == published("busy_quick")
    assert all(measured[f"{name}_alone"] > 0 for name in ("training", "evaluation", "probes"))


def test_the_explorer_is_measured(browser, monkeypatch) -> None:
    monkeypatch.setattr(system, "PROGRAMS", 2)
    measured = system.explore()
    assert set(measured) == published("explore")
    assert 0 < measured["page_milliseconds"] <= measured["page_longest"]


def test_a_training_step_is_measured_in_every_way_that_does_not_fail() -> None:
    # DeepSpeed needs its own process. One program per row is too much for GPT-NeoX here.
    command = [sys.executable, "-c", LITTLE_TRAINING]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    measured = json.loads(done.stdout.splitlines()[-1])
    assert set(measured) <= published("train") | {"bits"}
    ways = {key.removesuffix("_fill") for key in measured if key.endswith("_fill")}
    assert {"cadmus", "padded", "transformers_fp32", "fused_64", "written_out_128", "labels"} <= ways
    for way in ways:
        assert measured[f"{way}_tokens_per_second"] > measured[f"{way}_programs_per_second"] > 0
    assert measured["padded_fill"] < measured["cadmus_fill"] <= 1
    reason = "out of memory; tried to allocate 100 GB"
    assert f"bench train: transformers_padded_fp32: {reason}\n" in done.stderr
    assert not [key for key in measured if "transformers_padded_fp32" in key]
