"""The training state over ranks."""

import shutil
import sys

import numpy as np
import pytest

from cadmus.train import ranks
from tests.train.runs import (
    assert_same_model,
    go_back,
    losses,
    run_config,
    train,
    train_ranks,
    write_config,
)

NO_DIFFERENCE = 2e-5
"""Largest difference of fp32 losses between two orders of the same sums, after ten steps."""
NO_DIFFERENCE_BF16 = 2e-4
"""The same in bf16."""


def test_launched_ranks_give_the_losses_of_one_and_listen_on_loopback_only(tmp_path):
    assert train(tmp_path / "one", run_config()) == 0
    two = tmp_path / "two"
    write_config(two, run_config(ranks=2))
    command = [sys.executable, "-m", "tests.train.worker", str(two)]
    assert ranks.run_ranks(command, 2) == 0
    assert len(losses(two)) == 10
    # Newton-Schulz and bf16 magnify the noise.
    np.testing.assert_allclose(losses(two), losses(tmp_path / "one"), atol=5e-3)
    for run in (tmp_path / "one", two):
        addresses = set((run / "listening").read_text().split())
        assert addresses
        assert addresses <= {"127.0.0.1", "::1"}


def test_two_ranks_resume_bit_for_bit(tmp_path):
    """With Muon, as test_zero does with Adam."""
    values = run_config(learning_rate=1e-3, ranks=2, precision="fp32")
    assert train_ranks(tmp_path / "whole", values) == 0
    shutil.copytree(tmp_path / "whole", tmp_path / "parts")
    go_back(tmp_path / "parts", 5)
    assert train_ranks(tmp_path / "parts", values) == 0
    assert len(losses(tmp_path / "whole")) == 10
    assert losses(tmp_path / "parts") == losses(tmp_path / "whole")
    assert_same_model(tmp_path / "parts", tmp_path / "whole")


@pytest.mark.parametrize(
    ("fields", "tolerance"),
    [
        ({"recipe": "paper", "precision": "bf16"}, NO_DIFFERENCE_BF16),
        ({"recipe": "paper", "precision": "fp32"}, NO_DIFFERENCE),
        ({"recipe": "fast", "precision": "bf16"}, 5e-4),
        ({"recipe": "fast", "precision": "fp32"}, 5e-4),
    ],
    ids=["adam-bf16", "adam-fp32", "muon-bf16", "muon-fp32"],
)
def test_another_number_of_ranks_resumes(tmp_path, fields, tolerance):
    values = run_config(steps=12, checkpoint_every=6, learning_rate=1e-3, ranks=2, **fields)
    # The middle of the parameters, where two ranks part, is to lie within a matrix.
    values["model"]["layers"] = 3
    assert train_ranks(tmp_path, values) == 0
    whole = losses(tmp_path)
    for step, changes in ((6, {"ranks": 1, "checkpoint_every": 3}), (9, {"ranks": 2})):
        go_back(tmp_path, step)
        values["train"] |= changes
        assert train_ranks(tmp_path, values) == 0
        assert len(losses(tmp_path)) == 12
        np.testing.assert_allclose(losses(tmp_path), whole, atol=tolerance)
        before = tmp_path / "checkpoints" / f"step-{step:08d}"
        said = f"resuming after step {step} from {before}"
        assert (tmp_path / "log").read_text().splitlines().count(said) == 1
