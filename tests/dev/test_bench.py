"""Benchmarks measure what their published results have."""

import json

import pytest

from dev.bench import data
from tests.checkout import ROOT
from tests.commands import python

LITTLE_TRAINING = """
import json, torch
from dev.bench import training
from pathlib import Path
training.REPEATS = 1

def failing(*arguments):
    raise torch.OutOfMemoryError("out of memory;\\ntried to allocate 100 GB")

training._transformers_step = failing
print(json.dumps(training.train(Path("tests/tiny.yaml"))))
"""


def published(name: str) -> set[str]:
    """Return what a published benchmark measured; its commit and machine come with it."""
    measured = json.loads((ROOT / f"docs/benchmarks/bench_{name}.json").read_text())
    return measured.keys() - {"commit", "cores", "processor"}


@pytest.mark.parametrize("name", ["vm", "templates"])
def test_data_is_measured(monkeypatch, name) -> None:
    for constant, value in {"REPEATS": 1, "TEMPLATE_PROGRAMS": 200}.items():
        monkeypatch.setattr(data, constant, value)
    measured = getattr(data, name)()
    assert set(measured) == published(name)
    assert all(value >= 0 for value in measured.values())


def test_a_training_step_is_measured_in_every_way_that_does_not_fail() -> None:
    # DeepSpeed needs its own process.
    done = python("-c", LITTLE_TRAINING)
    measured = json.loads(done.stdout.splitlines()[-1])
    assert set(measured) <= published("train")
    assert measured["cadmus_tokens_per_second"] > 0
    of_step = [measured[f"cadmus_ms_of_{part}"] for part in ("batch", "forward", "backward", "optimizer")]
    assert 0 < sum(of_step) < measured["cadmus_ms_per_step"]
    assert 0 < measured["cadmus_share_of_matmul"] < 1
    assert measured["cadmus_checkpoint_seconds"] > 0
    assert measured["cadmus_synchronizations_per_step"] == 0
    reason = "out of memory; tried to allocate 100 GB"
    assert f"bench train: transformers_fp32: {reason}\n" in done.stderr
    assert not [key for key in measured if "transformers_fp32" in key]
