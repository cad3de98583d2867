"""Benchmarks measure what their published results have."""

import json
import subprocess
import sys

import pytest

from dev.bench import data
from tests.checkout import ROOT

LITTLE_TRAINING = """
import json, torch
from dev.bench import training
training.REPEATS, training.MATMUL = 1, 64

def failing(*arguments):
    raise torch.OutOfMemoryError("out of memory;\\ntried to allocate 100 GB")

training._transformers_step = failing
print(json.dumps(training.train("tests/tiny.yaml", 36)))
"""


def published(name: str) -> set[str]:
    """Return what a published benchmark measured; its commit and machine come with it."""
    measured = json.loads((ROOT / f"docs/results/bench_{name}.json").read_text())
    return measured.keys() - {"commit", "cores", "processor"}


@pytest.mark.parametrize("name", ["vm", "templates", "start"])
def test_data_is_measured(monkeypatch, name) -> None:
    for constant, value in {"REPEATS": 1, "TEMPLATE_PROGRAMS": 200, "STARTS": 1}.items():
        monkeypatch.setattr(data, constant, value)
    measured = getattr(data, name)()
    assert set(measured) == published(name)
    assert all(value >= 0 for value in measured.values())


def test_a_training_step_is_measured_in_every_way_that_does_not_fail() -> None:
    # DeepSpeed needs its own process.
    command = [sys.executable, "-c", LITTLE_TRAINING]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    measured = json.loads(done.stdout.splitlines()[-1])
    assert set(measured) <= published("train") | {"bits"}
    ways = {key.removesuffix("_fill") for key in measured if key.endswith("_fill")}
    assert ways == {"cadmus", "written_out_64", "fused_64", "written_out_128", "fused_128"}
    for way in ways:
        assert measured[f"{way}_tokens_per_second"] > measured[f"{way}_programs_per_second"] > 0
    assert 0.5 < measured["cadmus_fill"] <= 1
    reason = "out of memory; tried to allocate 100 GB"
    assert f"bench train: transformers_fp32: {reason}\n" in done.stderr
    assert not [key for key in measured if "transformers_fp32" in key]
