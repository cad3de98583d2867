"""What a training does with GPUs, as far as it can be tested without one."""

import json
import os
import shutil
import sysconfig
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from cadmus import config
from cadmus.errors import InputError, RankLocalError
from cadmus.train import devices, engine
from tests import train_process
from tests.test_train import run_config, train


@pytest.fixture
def two_gpus(monkeypatch) -> list[int]:
    """A machine that seems to have two GPUs; returns the devices that are made current."""
    current: list[int] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", current.append)
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)
    for name, value in {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MASTER_PORT", "1")
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    return current


def test_a_rank_has_its_gpu_before_the_first_collective(two_gpus, monkeypatch):
    """NCCL takes the current device for objects and barriers."""
    import deepspeed

    seen = []
    monkeypatch.setattr(
        deepspeed, "init_distributed", lambda backend, **options: seen.append((backend, list(two_gpus)))
    )
    assert engine.start_process() == torch.device("cuda", 1)
    assert seen == [("nccl", [1])]
    assert not torch.backends.cuda.cudnn_sdp_enabled()
    torch.backends.cuda.enable_cudnn_sdp(True)


@pytest.mark.parametrize(("rank", "kind"), [("0", RankLocalError), ("2", InputError)])
def test_more_ranks_than_gpus_are_one_line(two_gpus, monkeypatch, rank, kind):
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


def test_gpus_that_torch_cannot_use_end_the_training(monkeypatch, tmp_path):
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


@pytest.fixture
def stances(monkeypatch) -> list[str]:
    """What torch.compile is told."""
    given: list[str] = []
    monkeypatch.setattr(torch.compiler, "set_stance", given.append)
    monkeypatch.delenv("CC", raising=False)
    return given


def test_without_a_compiler_a_training_is_eager_and_says_so(stances, monkeypatch, tmp_path):
    (tmp_path / "Python.h").touch()
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}" if name == "gcc" else None)
    assert engine.prepare_compiler(wanted=True) is None
    assert stances == []
    monkeypatch.setenv("CC", "cl")
    assert engine.prepare_compiler(wanted=True).startswith(
        "no C compiler found (cl); blocks and Muon are not"
    )
    monkeypatch.delenv("CC")
    (tmp_path / "Python.h").unlink()
    assert engine.prepare_compiler(wanted=True).startswith(f"no {tmp_path}/Python.h (the package python3-dev")
    assert stances == ["force_eager"] * 2
    assert engine.prepare_compiler(wanted=False) is None
    assert stances == ["force_eager"] * 3


def test_deepspeed_neither_waits_for_the_gpu_nor_rounds_what_it_sums():
    told = engine.deepspeed_config(config.Train(steps=1), 8)
    assert told["timers"] == {"throughput": {"enabled": False}}
    assert told["communication_data_type"] == "fp32"


@pytest.mark.parametrize(
    "fields", [{}, {"recipe": "paper"}, {"precision": "fp32"}], ids=["muon", "adam", "fp32"]
)
def test_a_step_waits_for_the_gpu_twice_at_most(tmp_path, fields):
    steps = 4
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train_process, "train", _train_and_count)
        assert train(tmp_path, run_config(steps=steps, checkpoint_every=100, **fields)) == 0
    waits = json.loads((tmp_path / "waits").read_text())
    assert waits["synchronize"] == 0
    assert waits["scalars"] <= 2 * steps


def _train_and_count(directory: Path, data_digest: str) -> None:
    """As train_process.train, with a count of what would wait for a GPU in the steps."""
    from deepspeed.accelerator import get_accelerator

    from cadmus.train import loop

    os.environ["DS_ACCELERATOR"] = "cpu"
    waits = {"synchronize": 0, "scalars": 0}

    class Count(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), options=None):
            waits["scalars"] += function is torch.ops.aten._local_scalar_dense.default
            return function(*arguments, **(options or {}))

    def synchronize(device=None) -> None:
        waits["synchronize"] += 1

    get_accelerator().synchronize = synchronize
    step = loop.Training.train_step

    def counted(self, stop):
        with Count():
            return step(self, stop)

    loop.Training.train_step = counted
    train_process.train(directory, data_digest)
    (directory / "waits").write_text(json.dumps(waits))
