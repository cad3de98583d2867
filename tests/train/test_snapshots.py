"""Snapshots of a training."""

import torch
from safetensors.torch import load_file

from cadmus import config
from cadmus.model import WEIGHTS
from cadmus.model.export import read_metadata
from cadmus.train.snapshots import find_snapshots, snapshot_path, snapshot_steps
from tests.train.runs import run_config, train


def test_snapshots_are_log_spaced_and_include_the_last_step():
    def steps(number: int, count: int) -> list[int]:
        values = run_config(steps=number, snapshots=count)
        return sorted(snapshot_steps(config.parse_config(values, "test").train))

    assert steps(1000, 3) == [46, 215, 1000]
    assert steps(1000, 1) == [1000]
    assert steps(3, 9) == [1, 2, 3]


def test_a_training_exports_its_snapshots(tmp_path):
    values = run_config(steps=10, snapshots=4)
    stale = snapshot_path(tmp_path / "snapshots", 9)
    stale.mkdir(parents=True)
    assert train(tmp_path, values) == 0
    found = find_snapshots(tmp_path / "snapshots")
    assert [path.name for path in found] == [f"step-{step:08d}" for step in (1, 3, 10)]
    noted = [read_metadata(path) for path in found]
    assert [one["steps"] for one in noted] == [1, 3, 10]
    assert [one["programs"] for one in noted] == [32, 96, 320]
    weights = [load_file(directory / WEIGHTS) for directory in (found[0], found[-1], tmp_path / "model")]
    assert all(torch.equal(weights[1][name], weights[2][name]) for name in weights[2])
    assert not all(torch.equal(weights[0][name], weights[2][name]) for name in weights[2])
