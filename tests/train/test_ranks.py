"""Ranks: their number, starting and stopping them, and devices."""

import os
import subprocess
import sys

import pytest
import torch

from cadmus import config
from cadmus.errors import InputError, RankLocalError
from cadmus.train import engine
from cadmus.train import ranks as launch
from dev.measure import PATIENCE, kill_tree, wait_for
from tests.checkout import ROOT
from tests.commands import python


def test_ranks_fail_and_stop_together(tmp_path):
    (tmp_path / "rank.py").write_text(
        "import os, signal, sys\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))\n"
        "open(f'started-{os.environ[\"RANK\"]}', 'w').close()\n"
        "if sys.argv[1:] == ['fail'] and os.environ['RANK'] == '1': sys.exit(2)\n"
        "signal.pause()\n"
    )
    launcher = (
        "import sys; from cadmus.train import ranks; "
        "sys.exit(ranks.run_ranks([sys.executable, 'rank.py', *sys.argv[1:]], 2))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for arguments, code in ((["fail"], 2), ([], 1)):
        command = [sys.executable, "-c", launcher, *arguments]
        process = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True)
        try:
            if not arguments:
                wait_for(lambda: len([*tmp_path.glob("started-*")]) == 2, "both ranks")
                process.terminate()
            errors = process.communicate(timeout=PATIENCE)[1]
            assert process.returncode == code
            assert errors == "", "a rank says what happened"
        finally:
            kill_tree(process)
        for path in tmp_path.glob("started-*"):
            path.unlink()


def count(cores: int, gpus: int = 0, **train) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("OMP_NUM_THREADS", raising=False)
        patch.setattr(launch, "cores", lambda: cores)
        patch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
        patch.setattr(torch.cuda, "device_count", lambda: gpus)
        return launch.count_ranks(config.Train(steps=1, **train))


def test_one_rank_per_gpu_or_core():
    assert count(2) == 2
    assert count(1) == 1
    assert count(16, gpus=4) == 4
    assert count(2, ranks=8) == 8


def test_ranks_share_the_batch_equally():
    assert count(3, batch_size=256) == 2
    assert count(4, batch_size=256, micro_batch_size=128) == 2
    assert count(8, gpus=7, batch_size=1024) == 4
    assert count(5, batch_size=64) == 2, "a rank has 32 programs at least"
    assert count(5, batch_size=7) == 1


def test_ranks_use_only_the_cores_of_snakemake(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(launch, "cores", lambda: 8)
    for threads, expected in (("2", 2), ("16", 8), ("", 8), ("0", 8), ("2,1", 8)):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        lines: list[str] = []
        assert launch.count_ranks(config.Train(steps=1), log=lines.append) == expected
        line = "OMP_NUM_THREADS=2 allows 2 of 8 ranks; unset it to use all"
        assert lines == [line] * (expected < 8)


@pytest.mark.parametrize(("rank", "kind"), [("0", RankLocalError), ("2", InputError)])
def test_more_ranks_than_gpus_are_rejected(two_gpus, monkeypatch, rank, kind):
    monkeypatch.setenv("LOCAL_RANK", rank)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "3")
    with pytest.raises(InputError) as caught:
        engine.start_process()
    assert type(caught.value) is kind
    line = "train.ranks: this machine has 2 GPUs for 3 ranks; set at most 2"
    assert str(caught.value) == line
    assert not two_gpus
    with pytest.raises(InputError, match=f"^{line}$"):
        launch.check_devices(3)


def test_gpus_that_torch_cannot_use_are_reported(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    gpus: list[str] = []
    monkeypatch.setattr(launch, "has_gpu", lambda: bool(gpus))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("SLURM_JOB_GPUS", raising=False)
    launch.check_devices(1)
    for make in (lambda: monkeypatch.setenv("SLURM_JOB_GPUS", "0,1"), lambda: gpus.append("nvidia0")):
        make()
        with pytest.raises(InputError, match=r"GPUs that PyTorch .* cannot use; update the NVIDIA"):
            launch.check_devices(1)
        monkeypatch.delenv("SLURM_JOB_GPUS", raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    launch.check_devices(1)


def test_ranks_of_another_launcher_are_one_line(tmp_path):
    files = [f"--{name}={tmp_path / name}" for name in ("dataset", "checkpoints", "output", "metrics")]
    done = python("-m", "cadmus", "train", *files, RANK="1", WORLD_SIZE="2")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("cadmus: error: WORLD_SIZE: a launcher such as torchrun has set it, to '2'; start")


def test_a_training_alone_ignores_the_place_of_another_launcher(monkeypatch):
    monkeypatch.delenv(launch.RUN_ID, raising=False)
    for name, value in {"RANK": "abc", "WORLD_SIZE": "1", "LOCAL_RANK": "3", "MASTER_PORT": "70000"}.items():
        monkeypatch.setenv(name, value)
    # What it sets besides is taken back.
    for name in ("LOCAL_WORLD_SIZE", "MASTER_ADDR", "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        monkeypatch.setenv(name, "")
    store = launch.join()
    assert [os.environ[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")] == ["0", "1", "0"]
    assert os.environ["MASTER_PORT"] == str(store.port)
