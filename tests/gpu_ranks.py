"""Several GPUs over NCCL, a part of ``make gpu-check RANKS=N``: losses do not depend on the ranks."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from cadmus import config, pipeline
from dev.measure import PATIENCE
from tests.checkout import ROOT

RANKS = int(os.environ.get("GPU_RANKS", "2"))
STEPS = 60
LOSS_NOISE = 0.02
"""Maximum difference of bf16 losses between one rank and several, in nats."""

if torch.cuda.device_count() < RANKS:
    pytest.exit(f"needs {RANKS} GPUs that PyTorch can use, found {torch.cuda.device_count()}", returncode=2)


@pytest.fixture
def sampled(tmp_path: Path) -> tuple[Path, Path]:
    """A config and its dataset."""
    path, dataset = tmp_path / "config.yaml", tmp_path / "dataset"
    values = yaml.safe_load((ROOT / "tests/tiny.yaml").read_text())
    values["train"] = {"recipe": "paper", "batch_size": 32 * RANKS, "steps": STEPS, "checkpoint_every": STEPS}
    path.write_text(yaml.safe_dump(values))
    run = config.load_config(path)
    pipeline.sample(run, dataset)
    pipeline.dataset(run, dataset)
    return path, dataset


def start(directory: Path, sampled: tuple[Path, Path], ranks: int) -> subprocess.Popen[str]:
    files = {"checkpoints": "checkpoints", "output": "model", "metrics": "metrics.jsonl"}
    options = [f"--{option}={directory / file}" for option, file in files.items()]
    common = [f"--config={sampled[0]}", f"--dataset={sampled[1]}", f"--ranks={ranks}"]
    command = [sys.executable, "-m", "cadmus", "train", *common, *options]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)


def losses(directory: Path, sampled: tuple[Path, Path], ranks: int) -> list[float]:
    process = start(directory, sampled, ranks)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    return [json.loads(line)["loss"] for line in (directory / "metrics.jsonl").read_text().splitlines()]


def test_losses_do_not_depend_on_the_ranks(tmp_path: Path, sampled: tuple[Path, Path]) -> None:
    one = losses(tmp_path / "one", sampled, 1)
    np.testing.assert_allclose(losses(tmp_path / "all", sampled, RANKS), one, rtol=0, atol=LOSS_NOISE)
    process = start(tmp_path / "resumed", sampled, RANKS)
    partial = tmp_path / "resumed/metrics.partial.jsonl"
    while process.poll() is None and not (partial.exists() and partial.stat().st_size):
        time.sleep(0.005)
    process.terminate()
    _, errors = process.communicate(timeout=PATIENCE)
    assert "a checkpoint is saved" in errors
    np.testing.assert_allclose(losses(tmp_path / "resumed", sampled, 1), one, rtol=0, atol=LOSS_NOISE)
