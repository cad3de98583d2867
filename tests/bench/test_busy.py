"""The benchmark beside busy processes."""

import json

import psutil
import pytest
import torch

from cadmus.bench import busy
from cadmus.bench.busy import fair_share
from cadmus.config import Model
from cadmus.config.evaluation import Probe
from cadmus.errors import InputError
from cadmus.model.export import save_export
from cadmus.model.gpt import GPT
from tests.bench.conftest import invoke, published
from tests.checkout import ROOT


@pytest.fixture
def model(tmp_path):
    sizes = Model(layers=1, width=16, heads=2, mlp=32)
    save_export(GPT(sizes), sizes, tmp_path / "model", {})
    return tmp_path / "model"


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(busy, "SECONDS", 0.3)
    monkeypatch.setattr(busy, "SETTLE", 0.0)
    monkeypatch.setattr(busy, "REPEATS", 1)
    monkeypatch.setattr(busy, "PROMPTS", 5)
    sizes = {"train_programs": 60, "validation_programs": 20, "test_programs": 20}
    monkeypatch.setattr(busy, "PROBED", Probe(**sizes, inverse_regularisation=[1.0]))


def test_training_evaluation_and_probes_are_measured(model):
    measured = json.loads(invoke("busy", str(model), "--config", str(ROOT / "tests/tiny.yaml"), "--json"))
    assert set(measured) == published("busy_quick")
    assert measured["threads"] == torch.get_num_threads()
    for name in ("training", "evaluation", "probes"):
        assert measured[f"{name}_alone"] > 0
        assert measured[f"{name}_of_fair_1"] == pytest.approx(
            measured[f"{name}_beside_1"] / measured["fair_1"], abs=0.01
        )
    left = psutil.Process().children(recursive=True)
    assert not [process for process in left if {"while True: pass", "train"} & set(process.cmdline())]


def test_a_training_that_fails_is_one_line(model, tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text(f"extends: {ROOT / 'tests/tiny.yaml'}\nname: wrong\ntrain: {{ranks: 3}}\n")
    with pytest.raises(InputError, match="batch_size"):
        busy.bench_busy(config, model)


@pytest.mark.parametrize(
    ("threads", "busy", "cores", "share"),
    [(2, 0, 2, 1), (2, 1, 2, 2 / 3), (2, 2, 2, 0.5), (1, 1, 2, 1), (2, 2, 8, 1), (4, 4, 4, 0.5)],
)
def test_the_fair_share_gives_all_threads_the_same_time(threads, busy, cores, share):
    assert fair_share(threads, busy, cores) == pytest.approx(share)
