"""Devices of the ranks."""

import pytest
import torch

from cadmus.errors import InputError, RankLocalError
from cadmus.train import devices, engine


@pytest.mark.parametrize(("rank", "kind"), [("0", RankLocalError), ("2", InputError)])
def test_more_ranks_than_gpus_are_rejected(two_gpus, monkeypatch, rank, kind):
    monkeypatch.setenv("LOCAL_RANK", rank)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "3")
    with pytest.raises(InputError) as caught:
        engine.start_process()
    assert type(caught.value) is kind
    line = "train.ranks: this node has 2 GPUs for 3 ranks; set at most 2 per node"
    assert str(caught.value) == line
    assert not two_gpus
    with pytest.raises(InputError, match=f"^{line}$"):
        devices.check(3)


def test_gpus_that_torch_cannot_use_are_reported(monkeypatch, tmp_path):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(devices, "NVIDIA_DEVICE", tmp_path / "nvidia0")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("SLURM_JOB_GPUS", raising=False)
    devices.check(1)
    for make in (lambda: monkeypatch.setenv("SLURM_JOB_GPUS", "0,1"), (tmp_path / "nvidia0").touch):
        make()
        with pytest.raises(
            InputError, match=r"this node has GPUs that PyTorch .* cannot use; update the NVIDIA"
        ):
            devices.check(1)
        monkeypatch.delenv("SLURM_JOB_GPUS", raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    devices.check(1)
    assert devices.take(0) == torch.device("cpu")
