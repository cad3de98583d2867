"""The benchmark of the probes."""

import json

import pytest
import torch

from cadmus.bench import probing
from cadmus.config import Model
from cadmus.config.evaluation import Probe
from cadmus.model.export import save_export
from cadmus.model.gpt import GPT
from tests.bench.conftest import invoke, published


def test_probe_agrees_with_scikit_learn(monkeypatch, tmp_path) -> None:
    little = Probe(train_programs=1_000, validation_programs=200, test_programs=1_000)
    monkeypatch.setattr(
        probing, "SETTINGS", little.model_copy(update={"inverse_regularisation": [0.01, 0.1]})
    )
    sizes = Model(layers=1, width=16, heads=2, mlp=32)
    torch.manual_seed(0)
    save_export(GPT(sizes), sizes, tmp_path / "model", {})
    measured = json.loads(invoke("probe", str(tmp_path / "model"), "--json"))
    assert set(measured) == published("probe")
    assert (measured["tokens"], measured["width"], measured["regularisations"]) == (11, 16, 2)
    assert abs(measured["cadmus_accuracy"] - measured["scikit_learn_accuracy"]) < 0.005
    assert measured["ratio"] == pytest.approx(
        measured["scikit_learn_seconds"] / measured["cadmus_seconds"], rel=0.05
    )
