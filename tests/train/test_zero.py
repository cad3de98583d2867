"""ZeRO on two ranks: all stages give the same weights, and resume from one another."""

import shutil
from functools import cache
from signal import SIGKILL

import pytest

from cadmus.train.paths import find_checkpoints
from tests.train.runs import assert_same_model, losses, run_config, train_ranks
from tests.train.worker import Interrupt


def zero_config(stage: int) -> dict:
    return run_config(
        recipe="paper",
        learning_rate=1e-3,
        precision="fp32",
        steps=4,
        checkpoint_every=2,
        ranks=2,
        zero_stage=stage,
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An uninterrupted training at stage 1."""
    directory = tmp_path_factory.mktemp("whole")
    assert train_ranks(directory, zero_config(1)) == 0
    return directory


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """A function that returns a training that was killed one step after its only checkpoint."""

    @cache
    def make(stage):
        directory = tmp_path_factory.mktemp(f"stage{stage}")
        assert train_ranks(directory, zero_config(stage), interrupt=Interrupt(3, SIGKILL)) == -SIGKILL
        assert [path.name for path in find_checkpoints(directory / "checkpoints")] == ["step-00000002"]
        return directory

    return make


@pytest.mark.parametrize(("before", "after"), [(1, 1), (2, 2), (3, 3), (1, 3), (3, 1)])
def test_a_killed_training_resumes_to_the_weights_of_stage_1(tmp_path, whole, killed, before, after):
    resumed = tmp_path / "resumed"
    shutil.copytree(killed(before), resumed)
    assert train_ranks(resumed, zero_config(after)) == 0
    assert losses(resumed) == losses(whole)
    assert_same_model(resumed, whole)
