"""DeepSpeed: precision, configuration, learning rates, and GPUs as far as they can be tested without one."""

import json
import os
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from cadmus import config
from cadmus.train import engine
from tests.train import worker
from tests.train.runs import run_config, train


def schedule(**fields) -> list[float]:
    train = config.Train(steps=10, **fields)
    return [engine.learning_rate_factor(train, step) for step in range(10)]


def test_learning_rate_schedules():
    assert schedule(schedule="constant", warmup_fraction=0.2) == [0.5, 1] + [1] * 8
    linear = schedule(schedule="linear", warmup_fraction=0.0)
    assert linear == pytest.approx([1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1])
    cosine = schedule(schedule="cosine", warmup_fraction=0.5)
    assert cosine[:6] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1, 1])
    assert sum(cosine[5:]) == pytest.approx(3)
    assert cosine[5:] == sorted(cosine[5:], reverse=True)


@pytest.mark.parametrize(
    ("capability", "precision"), [("amx_bf16", "bf16"), ("avx512_bf16", "bf16"), ("avx512_f", "fp32")]
)
def test_the_default_precision_follows_the_cpu(monkeypatch, capability, precision):
    """Without instructions for bf16, a training in it would be a hundred times slower."""
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {capability: True})
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda *of_one_rank: None)
    device = torch.device("cpu")
    assert engine.with_precision(config.Train(steps=1), device).precision == precision
    for wanted in ("bf16", "fp32"):
        asked = config.Train(steps=1, precision=wanted)
        assert engine.with_precision(asked, device) == asked


def test_one_rank_without_bf16_makes_all_train_in_fp32(monkeypatch):
    def all_reduce(tensor, operation):
        assert operation == torch.distributed.ReduceOp.MIN
        tensor.fill_(0)

    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"amx_bf16": True})
    monkeypatch.setattr(torch.distributed, "all_reduce", all_reduce)
    assert engine.with_precision(config.Train(steps=1), torch.device("cpu")).precision == "fp32"


@pytest.mark.parametrize(
    ("fields", "stage"), [({}, 0), ({"optimizer": "adam"}, 1), ({"recipe": "paper", "zero_stage": 2}, 2)]
)
def test_the_stage_of_zero_follows_the_optimizer(fields, stage):
    told = engine.deepspeed_config(config.Train(steps=1, **fields), 1, 1_000)
    assert told["zero_optimization"] == {"stage": stage, "reduce_bucket_size": 1_000}


def test_a_rank_sets_its_gpu_before_the_first_collective(two_gpus, monkeypatch):
    """NCCL takes the current device for objects and barriers."""
    # DeepSpeed looks for its accelerator once in a process, and these GPUs are not there.
    monkeypatch.setenv("DS_ACCELERATOR", "cpu")
    import deepspeed

    seen = []
    monkeypatch.setattr(
        deepspeed, "init_distributed", lambda backend, **options: seen.append((backend, list(two_gpus)))
    )
    assert engine.start_process() == torch.device("cuda", 1)
    assert seen == [("nccl", [1])]
    assert not torch.backends.cuda.cudnn_sdp_enabled()
    torch.backends.cuda.enable_cudnn_sdp(True)


@pytest.mark.parametrize(
    "fields", [{}, {"recipe": "paper"}, {"precision": "fp32"}], ids=["muon", "adam", "fp32"]
)
def test_a_step_waits_for_the_gpu_at_most_twice(tmp_path, fields):
    steps = 4
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker, "train", _train_and_count)
        assert train(tmp_path, run_config(steps=steps, checkpoint_every=100, **fields)) == 0
    waits = json.loads((tmp_path / "waits").read_text())
    assert waits["synchronize"] == 0
    assert waits["scalars"] <= 2 * steps


def _train_and_count(directory: Path, data_digest: str) -> None:
    """As worker.train, with a count of what would wait for a GPU in the steps."""
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
    for name in ("train_step", "finish_step"):
        function = getattr(loop.Training, name)

        def counted(self, *given, function=function, **named):
            with Count():
                return function(self, *given, **named)

        setattr(loop.Training, name, counted)
    worker.train(directory, data_digest)
    (directory / "waits").write_text(json.dumps(waits))
