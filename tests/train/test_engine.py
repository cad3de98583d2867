"""DeepSpeed: precision, configuration, learning rates, and GPUs as far as they can be tested without one."""

import json
import os
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from cadmus import config
from cadmus.config import parse_config
from cadmus.train import engine
from tests.checkout import ROOT
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


def test_entries_of_deepspeed_replace_ours():
    entries = {"zero_optimization": {"stage": 2}, "csv_monitor": {"enabled": True}}
    values = run_config(recipe="paper", deepspeed=entries)
    told = engine.deepspeed_config(parse_config(values, "x.yaml").train, 1, 1_000)
    assert told["zero_optimization"] == {"stage": 2, "reduce_bucket_size": 1_000}
    assert told["csv_monitor"] == {"enabled": True}


def test_deepspeed_config_of_eight_gpus():
    run = config.load_config(ROOT / "config" / "paper.yaml")
    told = engine.deepspeed_config(run.train, 8, 280_000_000)
    assert run.train.ranks == 8
    assert told["train_batch_size"] == 1024
    assert told["train_micro_batch_size_per_gpu"] == 128
    assert told["gradient_clipping"] == 1.0
    assert told["bf16"] == {"enabled": True}
    assert told["data_types"] == {"grad_accum_dtype": "fp32"}
    assert told["zero_optimization"] == {"stage": 1, "reduce_bucket_size": 280_000_000}
    assert told["optimizer"]["type"] == "AdamW"
    assert told["optimizer"]["params"]["betas"] == [0.9, 0.95]
    assert told["timers"] == {"throughput": {"enabled": False}}
    assert told["communication_data_type"] == "fp32"
    # DeepSpeed derives it; given as well, it would have to agree.
    assert "gradient_accumulation_steps" not in told
    accumulated = engine.deepspeed_config(run.train.model_copy(update={"micro_batch_size": 32}), 8, 10**9)
    assert accumulated["train_micro_batch_size_per_gpu"] == 32
    assert accumulated["train_batch_size"] == 1024
    assert accumulated["zero_optimization"]["reduce_bucket_size"] == 500_000_000


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("comm/torch.py", "deepspeed.ops.__compatible_ops__.get("),
        ("runtime/bf16_optimizer.py", "see_memory_usage("),
        ("runtime/engine.py", 'hasattr(self.optimizer, "get_grads_for_reduction")'),
        ("runtime/bf16_optimizer.py", "if not self._hp_optimizer_states_linked:"),
        ("runtime/zero/stage_1_and_2.py", "if not self._hp_optimizer_states_linked:"),
        ("utils/tensor_fragment.py", "lp_fragment_address: fragment_address"),
        ("runtime/engine.py", "scale_wrt_gas=True"),
    ],
)
def test_deepspeed_is_as_the_engine_needs_it(file, text):
    """Names that cadmus.train.engine patches or reads; after a change, it could be wrong without an error."""
    import deepspeed

    assert text in (Path(deepspeed.__file__).parent / file).read_text()


def test_a_rank_sets_its_gpu_before_the_first_collective(two_gpus, monkeypatch):
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
