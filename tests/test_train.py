"""Packing, the order of the data, the training loop and its checkpoints."""

import errno
import fcntl
import functools
import json
import multiprocessing
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from cadmus import config, isa
from cadmus.errors import InputError
from cadmus.model import WEIGHTS
from cadmus.model.export import load_export, read_metadata
from cadmus.model.gpt import GPT
from cadmus.programs import Programs
from cadmus.templates.random import random_programs
from cadmus.train import checkpoint, engine, launch
from cadmus.train.batches import Batches
from cadmus.train.packing import NO_TARGET, pack, pack_batch
from cadmus.train.snapshots import find_snapshots, snapshot_path, snapshot_steps
from tests import train_process

# The server imports what a training needs once; each training is a fork of it.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.train_process", "deepspeed.runtime.zero.muon.original_muon"])

NO_DIFFERENCE = 2e-5
"""Largest difference of fp32 losses between two orders of the same sums, after ten steps."""
NO_DIFFERENCE_BF16 = 2e-4
"""The same in bf16."""
WEIGHTS_NO_DIFFERENCE = {"fp32": 5e-5, "bf16": 5e-3}
"""The same for the weights.  Adam makes a step of the learning rate, 1e-3 here, of a gradient near 0."""


def run_config(**train) -> dict:
    return {
        "name": "test",
        "dataset": {"max_length": 31, "templates": {"equality": {"train": 1}}},
        "model": {"layers": 2, "width": 32, "heads": 2, "mlp": 64},
        # What is tested does not depend on the processor.
        "train": {"steps": 10, "batch_size": 32, "checkpoint_every": 5, "precision": "bf16", **train},
    }


def start(directory: Path, values: dict, data_digest: str = "data") -> multiprocessing.Process:
    directory.mkdir(exist_ok=True)
    (directory / "config.yaml").write_text(yaml.safe_dump(values))
    process = PROCESSES.Process(target=train_process.train, args=(directory, data_digest))
    process.start()
    return process


def finish(process: multiprocessing.Process) -> int:
    process.join(60)
    assert process.exitcode is not None, "the training hangs"
    return process.exitcode


def train(directory: Path, values: dict, data_digest: str = "data") -> int:
    return finish(start(directory, values, data_digest))


def train_ranks(directory: Path, values: dict, ranks: int | None = None) -> int:
    """Train with as many forks of the server as the config has ranks: faster than the launcher is."""
    directory.mkdir(exist_ok=True)
    (directory / "config.yaml").write_text(yaml.safe_dump(values))
    ranks = ranks or values["train"].get("ranks", 1)
    port = free_port()
    processes = [
        PROCESSES.Process(target=train_process.train_rank, args=(directory, rank, ranks, port))
        for rank in range(ranks)
    ]
    for process in processes:
        process.start()
    return max(map(abs, map(finish, processes)))


def free_port() -> int:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port: int = unused.getsockname()[1]
        return port


def metrics(directory: Path) -> list[dict]:
    return [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]


def losses(directory: Path) -> list[float]:
    assert [record["step"] for record in metrics(directory)] == list(range(1, len(metrics(directory)) + 1))
    return [record["loss"] for record in metrics(directory)]


def assert_same_model(one: Path, other: Path) -> None:
    first, second = (load_export(directory / "model").state_dict() for directory in (one, other))
    for name in first:
        assert torch.equal(first[name], second[name]), name


def assert_close_model(one: Path, other: Path, tolerance: float) -> None:
    first, second = (load_export(directory / "model").state_dict() for directory in (one, other))
    for name in first:
        torch.testing.assert_close(
            first[name], second[name], atol=tolerance, rtol=0, msg=lambda text, name=name: f"{name}: {text}"
        )


def go_back(directory: Path, step: int) -> None:
    """Make a finished run one that was killed behind its checkpoint of ``step``."""
    for newer in (directory / "checkpoints").glob("step-*"):
        if newer.name > f"step-{step:08d}":
            shutil.rmtree(newer)
    shutil.rmtree(directory / "model")


@settings(deadline=None)
@given(st.lists(st.integers(1, 20), max_size=60), st.integers(20, 40))
def test_packing_puts_every_program_somewhere_of_its_own(lengths, row_length):
    lengths = np.array(lengths, np.int64)
    rows, columns, count = pack(lengths, row_length)
    taken = np.zeros((count, row_length), int)
    for row, column, length in zip(rows, columns, lengths, strict=True):
        assert column + length <= row_length
        taken[row, column : column + length] += 1
    assert taken.max(initial=0) <= 1
    assert (taken.sum(1) > 0).all()
    # No two rows could have been one.
    used = np.sort(taken.sum(1))
    assert count < 2 or used[0] + used[1] > row_length


def test_packing_refuses_what_no_row_holds():
    with pytest.raises(ValueError, match="needs 21 tokens"):
        pack(np.array([3, 21]), 20)


def test_packing_fills_the_rows():
    programs = random_programs(256, 6, 30)
    assert pack_batch(programs, np.ones(256), 64).fill > 0.97
    assert pack_batch(programs, np.ones(256), 128).fill > 0.95


@settings(deadline=None)
@given(st.lists(st.text(sorted(set(isa.TOKEN_ID) - {"."}), min_size=1, max_size=15), min_size=1, max_size=12))
def test_a_packed_batch_holds_each_program_once(strings):
    prompt_lengths = np.array([len(string) // 2 for string in strings])
    packed = pack_batch(Programs.from_strings(strings), prompt_lengths, 16)
    found = []
    for row in range(len(packed.tokens)):
        for segment in packed.segments[row].unique():
            inside = packed.segments[row] == segment
            tokens, targets = packed.tokens[row][inside], packed.targets[row][inside]
            completing = packed.completion_mask[row][inside].tolist()
            if segment < 0:
                assert (targets == NO_TARGET).all()
                assert not any(completing)
                continue
            prompt = prompt_lengths[segment]
            assert completing == [
                targets[place] != NO_TARGET and place + 1 >= prompt for place in range(len(tokens))
            ]
            assert packed.positions[row][inside].tolist() == list(range(len(tokens)))
            assert targets.tolist() == [*tokens[1:].tolist(), NO_TARGET]
            found.append("".join(isa.INSTRUCTIONS[token].symbol for token in tokens))
    assert sorted(found) == sorted(string + "." for string in strings)
    assert packed.programs == len(strings)
    assert packed.target_count == (packed.targets != NO_TARGET).sum()
    assert packed.fill == pytest.approx((packed.segments >= 0).float().mean().item())


def test_an_epoch_sees_every_program_once_and_epochs_differ():
    batches = Batches(seed=1, programs=10, batch_size=4)
    sequence = np.concatenate([batches.batch(step) for step in range(10)])
    epochs = sequence.reshape(4, 10)
    assert (np.sort(epochs, axis=1) == np.arange(10)).all()
    assert len({tuple(epoch) for epoch in epochs}) == 4


def test_a_batch_depends_on_seed_and_step_alone():
    reference = [Batches(1, 10, 25).batch(step) for step in range(5)]
    onward = Batches(1, 10, 25)
    assert all(np.array_equal(onward.batch(step), reference[step]) for step in range(5))
    assert not np.array_equal(Batches(2, 10, 25).batch(0), reference[0])


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
    "fields",
    [
        {},
        {"precision": "fp32"},
        {"recipe": "paper"},
        {"recipe": "paper", "precision": "fp32", "micro_batch_size": 8},
    ],
    ids=["muon", "muon-fp32", "adam", "adam-fp32-accumulated"],
)
def test_ten_steps_are_five_and_five(tmp_path, fields):
    assert train(tmp_path / "whole", run_config(**fields)) == 0
    assert train(tmp_path / "parts", run_config(**fields)) == 0
    go_back(tmp_path / "parts", 5)
    assert train(tmp_path / "parts", run_config(**fields)) == 0
    assert len(losses(tmp_path / "whole")) == 10
    assert losses(tmp_path / "parts") == losses(tmp_path / "whole")
    assert_same_model(tmp_path / "parts", tmp_path / "whole")


def test_snapshots_are_spaced_in_the_logarithm_and_end_at_the_last_step():
    def steps(number: int, count: int) -> list[int]:
        values = run_config(steps=number, snapshots=count)
        return sorted(snapshot_steps(config.parse_config(values, "test").train))

    assert steps(1000, 3) == [46, 215, 1000]
    assert steps(1000, 1) == [1000]
    assert steps(3, 9) == [1, 2, 3]


def test_a_training_leaves_its_snapshots(tmp_path):
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


def wait_for_steps(directory: Path, steps: int) -> None:
    deadline = time.monotonic() + 60
    path = directory / "metrics.jsonl"
    while not path.exists() or path.read_bytes().count(b"\n") < steps:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_killed_and_stopped_runs_go_on_to_the_same_losses(tmp_path):
    values = run_config(steps=60, checkpoint_every=10, keep_checkpoints=2, snapshots=9)
    assert train(tmp_path / "whole", values) == 0
    broken = tmp_path / "broken"

    process = start(broken, values)
    wait_for_steps(broken, 15)
    process.kill()
    assert finish(process) == -signal.SIGKILL
    assert 15 <= len(losses(broken)) < 60

    process = start(broken, values)
    wait_for_steps(broken, 25)
    process.terminate()
    assert finish(process) == 3
    stopped = checkpoint.find_latest(broken / "checkpoints")
    assert stopped.name == f"step-{len(losses(broken)):08d}"
    assert 25 <= len(losses(broken)) < 60

    assert train(broken, values) == 0
    assert losses(broken) == losses(tmp_path / "whole")
    assert_same_model(broken, tmp_path / "whole")
    for snapshot in find_snapshots(tmp_path / "whole" / "snapshots"):
        again = broken / "snapshots" / snapshot.name
        assert (again / WEIGHTS).read_bytes() == (snapshot / WEIGHTS).read_bytes()
    kept = sorted(path.name for path in (broken / "checkpoints").glob("*step-*"))
    assert len(kept) == 2
    assert kept[-1] == "step-00000060"
    records = metrics(broken)
    assert [record["programs"] for record in records] == [32 * step for step in range(1, 61)]
    assert all(later["seconds"] > earlier["seconds"] for earlier, later in pairwise(records))


def test_a_run_learns_and_exports_what_it_was(tmp_path):
    values = run_config(steps=80, checkpoint_every=80, learning_rate=3e-3, precision=None)
    assert train(tmp_path, values) == 0
    records = metrics(tmp_path)
    assert records[0]["loss"] == pytest.approx(np.log(isa.VOCABULARY_SIZE), abs=0.1)
    assert records[-1]["completion_loss"] < records[0]["completion_loss"] - 0.1
    exported = read_metadata(tmp_path / "model")
    assert exported["steps"] == 80
    assert exported["data_digest"] == "data"
    assert exported["loss"] == records[-1]["loss"]
    assert exported["tokens"] == records[-1]["tokens"]
    assert exported["flops"] == records[-1]["flops"] == pytest.approx(80 * records[0]["flops"], rel=0.1)
    assert exported["config"]["train"]["learning_rate"] == 3e-3
    assert exported["config"]["train"]["precision"] in ("bf16", "fp32")
    assert load_export(tmp_path / "model").sizes == config.Model(**run_config()["model"])


@pytest.mark.parametrize(
    ("capabilities", "precision"),
    [
        ({"amx_bf16": True}, "bf16"),
        ({"avx512_bf16": True}, "bf16"),
        ({"avx512_f": True}, "fp32"),
        ({}, "fp32"),
    ],
)
def test_the_precision_is_one_that_the_processor_has(monkeypatch, capabilities, precision):
    """Without instructions for bf16, a training in it would be a hundred times slower."""
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda *of_one_rank: None)
    device = torch.device("cpu")
    assert engine.with_precision(config.Train(steps=1), device).precision == precision
    for wanted in ("bf16", "fp32"):
        asked = config.Train(steps=1, precision=wanted)
        assert engine.with_precision(asked, device) == asked


def test_a_rank_without_bf16_makes_all_ranks_train_in_fp32(monkeypatch):
    def all_reduce(tensor, operation):
        assert operation == torch.distributed.ReduceOp.MIN
        tensor.fill_(0)

    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"amx_bf16": True})
    monkeypatch.setattr(torch.distributed, "all_reduce", all_reduce)
    assert engine.with_precision(config.Train(steps=1), torch.device("cpu")).precision == "fp32"


def test_what_deepspeed_is_told_of_the_run_on_eight_gpus():
    run = config.load_config(Path(__file__).parents[1] / "config" / "paper.yaml")
    told = engine.deepspeed_config(run.train, 8)
    assert run.train.ranks == 2
    assert told["train_batch_size"] == 1024
    assert told["train_micro_batch_size_per_gpu"] == 128
    assert told["gradient_clipping"] == 1.0
    assert told["bf16"] == {"enabled": True}
    assert told["data_types"] == {"grad_accum_dtype": "fp32"}
    assert told["zero_optimization"] == {"stage": 1}
    assert told["optimizer"]["type"] == "AdamW"
    assert told["optimizer"]["params"]["betas"] == [0.9, 0.95]
    # DeepSpeed derives it; given as well, it would have to agree.
    assert "gradient_accumulation_steps" not in told
    accumulated = engine.deepspeed_config(run.train.model_copy(update={"micro_batch_size": 32}), 8)
    assert accumulated["train_micro_batch_size_per_gpu"] == 32
    assert accumulated["train_batch_size"] == 1024


def test_muon_gets_the_matrices_of_the_blocks():
    from deepspeed import set_optimizer_flags

    class Told:
        optimizer_name = "muon"
        optimizer_params = engine.deepspeed_config(config.Train(steps=1), 1)["optimizer"]["params"]

    model = GPT(config.Model(layers=1, width=8, heads=2, mlp=16))
    set_optimizer_flags(Told, model)
    assert {name for name, parameter in model.named_parameters() if parameter.use_muon} == {
        "layers.0.attention.query_key_value.weight",
        "layers.0.attention.dense.weight",
        "layers.0.mlp.dense_h_to_4h.weight",
        "layers.0.mlp.dense_4h_to_h.weight",
    }


def test_losses_do_not_depend_on_micro_batches_or_row_length(tmp_path):
    fields = {"recipe": "paper", "precision": "fp32", "learning_rate": 1e-3}
    assert train(tmp_path / "one", run_config(**fields)) == 0
    assert train(tmp_path / "four", run_config(**fields, micro_batch_size=8, row_length=50)) == 0
    np.testing.assert_allclose(losses(tmp_path / "four"), losses(tmp_path / "one"), atol=NO_DIFFERENCE)


def test_prompts_of_weight_zero_are_not_learned(tmp_path):
    last = {}
    for weight in (0.0, 1.0):
        fields = {"recipe": "paper", "precision": "fp32", "learning_rate": 1e-2}
        assert train(tmp_path / str(weight), run_config(**fields, prompt_weight=weight)) == 0
        last[weight] = metrics(tmp_path / str(weight))[-1]
    # Of completions that are ends alone: the end, whatever was before.
    assert last[0.0]["completion_loss"] < last[1.0]["completion_loss"] - 0.5
    assert last[0.0]["loss"] > last[1.0]["loss"] + 0.1


@pytest.mark.parametrize("weight", [0.0, 0.25, 1.0])
def test_weighted_losses_do_not_depend_on_micro_batches(tmp_path, weight):
    fields = {"recipe": "paper", "precision": "fp32", "learning_rate": 1e-3, "prompt_weight": weight}
    assert train(tmp_path / "one", run_config(**fields)) == 0
    assert train(tmp_path / "four", run_config(**fields, micro_batch_size=8)) == 0
    np.testing.assert_allclose(losses(tmp_path / "four"), losses(tmp_path / "one"), atol=NO_DIFFERENCE)


def test_ranks_that_cannot_share_the_batch_are_refused(tmp_path):
    """As when torchrun is told another number than the config says."""
    values = run_config(batch_size=33)
    assert train_ranks(tmp_path, values, ranks=2) == 2
    assert (tmp_path / "error").read_text() == (
        "train.batch_size: 33 programs cannot be shared equally by 2 ranks, in whole micro-batches; "
        "start another number of ranks"
    )


def test_launched_ranks_give_the_losses_of_one(tmp_path):
    assert train(tmp_path / "one", run_config()) == 0
    two = tmp_path / "two"
    two.mkdir()
    (two / "config.yaml").write_text(yaml.safe_dump(run_config(ranks=2)))
    command = [sys.executable, "-m", "tests.train_process", str(two)]
    assert launch.run_ranks(command, 2) == 0
    assert len(losses(two)) == 10
    # Newton-Schulz and bf16 magnify the noise.
    np.testing.assert_allclose(losses(two), losses(tmp_path / "one"), atol=5e-3)


@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", NO_DIFFERENCE), ("bf16", NO_DIFFERENCE_BF16)])
def test_every_zero_stage_on_two_ranks_gives_the_losses_of_one(tmp_path, precision, tolerance):
    fields = {"recipe": "paper", "precision": precision, "learning_rate": 1e-3}
    one = tmp_path / "one"
    assert train(one, run_config(**fields)) == 0
    for stage in (1, 2, 3):
        two = tmp_path / f"stage-{stage}"
        assert train_ranks(two, run_config(**fields, zero_stage=stage, ranks=2)) == 0
        assert len(losses(two)) == 10
        np.testing.assert_allclose(losses(two), losses(one), atol=tolerance)
        assert_close_model(two, one, WEIGHTS_NO_DIFFERENCE[precision])


@pytest.mark.parametrize(
    "fields",
    [
        {"recipe": "paper", "zero_stage": 2},
        {"recipe": "paper", "zero_stage": 3},
        {"recipe": "fast", "precision": "fp32"},
    ],
    ids=["adam-2", "adam-3", "muon-fp32"],
)
def test_two_ranks_resume_bit_for_bit(tmp_path, fields):
    values = run_config(learning_rate=1e-3, ranks=2, **fields)
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
        ({"recipe": "paper", "precision": "fp32", "zero_stage": 1}, NO_DIFFERENCE),
        ({"recipe": "paper", "precision": "fp32", "zero_stage": 2}, NO_DIFFERENCE),
        ({"recipe": "paper", "precision": "fp32", "zero_stage": 3}, NO_DIFFERENCE),
        ({"recipe": "fast", "precision": "bf16"}, 5e-4),
        ({"recipe": "fast", "precision": "fp32"}, 5e-4),
    ],
    ids=["adam-1", "adam-2", "adam-3", "muon-bf16", "muon-fp32"],
)
def test_another_number_of_ranks_goes_on(tmp_path, fields, tolerance):
    values = run_config(
        steps=12, checkpoint_every=4, keep_checkpoints=3, learning_rate=1e-3, ranks=2, **fields
    )
    # The middle of the parameters, where two ranks part, is to lie within a matrix.
    values["model"]["layers"] = 3
    assert train_ranks(tmp_path, values) == 0
    whole = losses(tmp_path)
    for step, ranks in ((4, 1), (8, 2)):
        go_back(tmp_path, step)
        values["train"]["ranks"] = ranks
        assert train_ranks(tmp_path, values) == 0
        assert len(losses(tmp_path)) == 12
        np.testing.assert_allclose(losses(tmp_path), whole, atol=tolerance)
        before = tmp_path / "checkpoints" / f"step-{step:08d}"
        said = f"resuming after step {step} from {before}"
        assert (tmp_path / "log").read_text().splitlines().count(said) == 1
        assert not list((tmp_path / "checkpoints").glob("unfinished-*"))


def test_a_checkpoint_says_what_it_is(tmp_path):
    values = run_config(steps=2)
    assert train(tmp_path, values) == 0
    described = json.loads((checkpoint.find_latest(tmp_path / "checkpoints") / "meta.json").read_text())
    assert described["config"]["train"].pop("ranks") == 1
    assert described["config"]["train"].items() >= values["train"].items()
    assert described["step"] == 2
    assert described["instruction_set"] == isa.digest()
    assert described["data"] == "data"
    assert described["progress"]["loss"] == losses(tmp_path)[-1]
    assert described["versions"].keys() == {"torch", "deepspeed", "numpy"}
    assert described["commit"]


def test_a_checkpoint_is_on_the_disk_before_it_has_its_name(tmp_path):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train_process, "train", _train_and_trace)
        assert train(tmp_path, run_config(steps=1)) == 0
    done = (tmp_path / "trace").read_text().splitlines()
    named = done.index("rename step-00000001")
    written = {path.name for path in (tmp_path / "checkpoints" / "step-00000001").rglob("*")}
    assert {f"flush {name}" for name in (*written, "unfinished-step-00000001")} <= set(done[:named])
    assert done.index("flush unfinished-step-00000001") > max(done.index(f"flush {name}") for name in written)
    assert "flush checkpoints" in done[named:]


def _train_and_trace(directory: Path, data_digest: str) -> None:
    """As train_process.train, with a list of what was flushed and renamed."""
    fsync, rename = os.fsync, Path.rename
    trace = (directory / "trace").open("a", buffering=1)

    def traced_fsync(handle: int) -> None:
        fsync(handle)
        print("flush", Path(os.readlink(f"/proc/self/fd/{handle}")).name, file=trace)

    def traced_rename(path: Path, target: Path) -> Path:
        print("rename", target.name, file=trace)
        return rename(path, target)

    os.fsync, Path.rename = traced_fsync, traced_rename
    train_process.train(directory, data_digest)


def test_ranks_fail_and_stop_together(tmp_path):
    (tmp_path / "rank.py").write_text(
        "import os, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))\n"
        "open(f'started-{os.environ[\"RANK\"]}', 'w').close()\n"
        "if sys.argv[1:] == ['fail'] and os.environ['RANK'] == '1': sys.exit(2)\n"
        "time.sleep(30)\n"
    )
    launcher = (
        "import sys; from cadmus.train import launch; "
        "sys.exit(launch.run_ranks([sys.executable, 'rank.py', *sys.argv[1:]], 2))"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    for arguments, code in ((["fail"], 2), ([], 1)):
        process = subprocess.Popen(
            [sys.executable, "-c", launcher, *arguments], cwd=tmp_path, env=environment
        )
        deadline = time.monotonic() + 20
        while not arguments and len(list(tmp_path.glob("started-*"))) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        if not arguments:
            process.terminate()
        try:
            assert process.wait(20) == code
        finally:
            process.kill()
            process.wait()
        for path in tmp_path.glob("started-*"):
            path.unlink()


def test_checkpoints_of_another_run_are_refused(tmp_path):
    values = run_config(steps=2)
    assert train(tmp_path, values) == 0
    cases = [
        ({**values, "seed": 9}, "data", "seed 1, this run has 9"),
        ({**values, "model": {**values["model"], "mlp": 65}}, "data", "model.mlp 64, this run has 65"),
        (run_config(steps=3), "data", "train.steps 2, this run has 3"),
        (values, "other", "data data, this run has other"),
    ]
    for changed, data_digest, message in cases:
        assert train(tmp_path, changed, data_digest) == 2
        error = (tmp_path / "error").read_text()
        assert message in error
        assert f"delete {tmp_path / 'checkpoints'}" in error
        assert "\n" not in error
    assert train(tmp_path, run_config(steps=2, checkpoint_every=7, keep_checkpoints=1)) == 0


def test_one_training_at_a_time_writes_checkpoints(tmp_path):
    values = run_config(steps=2)
    checkpoints = tmp_path / "checkpoints"
    checkpoints.mkdir()
    with (checkpoints / checkpoint.LOCK).open("w") as lock:
        print(1234, file=lock, flush=True)
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert train(tmp_path, values) == 2
    assert (tmp_path / "error").read_text().startswith(f"{checkpoints}: process 1234 is training")
    assert train(tmp_path, values) == 0


def test_a_file_system_without_locks_is_no_obstacle(tmp_path):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train_process, "train", _train_without_locks)
        assert train(tmp_path, run_config(steps=2)) == 0
    lock = tmp_path / "checkpoints" / checkpoint.LOCK
    said = f"{lock}: the file system has no locks; start no second training here"
    assert (tmp_path / "log").read_text().splitlines().count(said) == 1


def _train_without_locks(directory: Path, data_digest: str) -> None:
    def flock(file, operation):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    fcntl.flock = flock
    train_process.train(directory, data_digest)


def test_all_ranks_resume_from_the_checkpoint_that_the_first_finds(tmp_path, monkeypatch):
    newest = tmp_path / "step-00000006"

    def broadcast(found):
        assert found == [None], "the other ranks do not look for themselves"
        found[0] = newest

    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 1)
    monkeypatch.setattr(torch.distributed, "broadcast_object_list", broadcast)
    monkeypatch.setattr(checkpoint, "VISIBLE_SECONDS", 1)
    with pytest.raises(InputError, match="step-00000006: not visible on this node after 1 s"):
        checkpoint.find_common_latest(tmp_path)
    newest.mkdir()
    (newest / "meta.json").touch()
    assert checkpoint.find_common_latest(tmp_path) == newest


def test_incomplete_checkpoints_are_ignored(tmp_path):
    assert train(tmp_path, run_config(steps=6)) == 0
    checkpoints = tmp_path / "checkpoints"
    assert checkpoint.find_latest(checkpoints).name == "step-00000006"
    (checkpoints / "step-00000006").rename(checkpoints / "unfinished-step-00000006")
    assert checkpoint.find_latest(checkpoints).name == "step-00000005"
    assert checkpoint.find_latest(tmp_path / "nothing") is None


def test_a_loss_that_is_no_number_ends_the_run(tmp_path):
    values = run_config(recipe="paper", learning_rate=0.99, clip=0.0, steps=200)
    values["model"]["layers"] = 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train_process, "train", _train_on_nan)
        assert train(tmp_path, values) == 2
    error = (tmp_path / "error").read_text()
    assert "the loss is nan at step 7" in error
    assert str(tmp_path / "checkpoints" / "step-00000005") in error
    assert "\n" not in error
    assert not (tmp_path / "model").exists()


def test_too_large_a_model_ends_the_run(tmp_path):
    values = run_config()
    values["model"] = {"layers": 1, "width": 100_000, "heads": 2, "mlp": 64}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train_process, "train", _train_in_eight_gigabytes)
        assert train(tmp_path, values) == 2
    assert (tmp_path / "error").read_text() == (
        "too little memory for the model and its optimizer; set a train.micro_batch_size below 32, "
        "or a smaller model than layers 1, width 100000, heads 2, mlp 64"
    )


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory:"
        ),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
        MemoryError(),
    ],
    ids=["cpu", "cuda", "numpy"],
)
def test_too_large_a_batch_ends_the_run(tmp_path, error):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train_process, "train", functools.partial(_train_without_memory, error))
        assert train(tmp_path, run_config(micro_batch_size=8)) == 2
    assert (tmp_path / "error").read_text() == (
        "too little memory for step 1; set a train.micro_batch_size below 8, "
        "or a smaller model than layers 2, width 32, heads 2, mlp 64"
    )


def _train_in_eight_gigabytes(directory: Path, data_digest: str) -> None:
    """As train_process.train, with so much address space that no other process is in danger."""
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, resource.RLIM_INFINITY))
    train_process.train(directory, data_digest)


def _train_without_memory(error: Exception, directory: Path, data_digest: str) -> None:
    """As train_process.train, with an error of an allocator in the first step."""
    from cadmus.train import loop

    class Broken:
        @staticmethod
        def cross_entropy(*arguments, **options):
            raise error

    loop.F = Broken
    train_process.train(directory, data_digest)


def test_a_checkpoint_that_cannot_be_written_ends_the_run(tmp_path):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train_process, "train", _train_without_space)
        assert train(tmp_path, run_config()) == 2
    checkpoints = tmp_path / "checkpoints"
    assert (tmp_path / "error").read_text() == f"cannot write {checkpoints / 'step-00000005'}: File too large"
    assert not list(checkpoints.glob("*step*"))
    assert train(tmp_path, run_config()) == 0
    assert len(losses(tmp_path)) == 10


def _train_without_space(directory: Path, data_digest: str) -> None:
    """As train_process.train, with no file above 16 KiB, which a checkpoint alone needs."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (16 << 10, resource.RLIM_INFINITY))
    train_process.train(directory, data_digest)


def test_a_temporary_directory_that_is_full_ends_the_run(tmp_path):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train_process, "train", _train_without_space_for_the_programs)
        assert train(tmp_path, run_config()) == 2
    said = f"cannot write {Path(tempfile.gettempdir(), 'training programs')}: File too large"
    assert (tmp_path / "error").read_text() == said


def _train_without_space_for_the_programs(directory: Path, data_digest: str) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 10, resource.RLIM_INFINITY))
    train_process.train(directory, data_digest)


@pytest.mark.parametrize(
    ("pattern", "keep"),
    [
        ("meta.json", 20),
        ("state.safetensors", 0),
        ("state.safetensors", 500),
        ("state.safetensors", 50_000),
        ("state.safetensors", None),
    ],
)
def test_a_damaged_checkpoint_is_named_and_the_one_before_serves(tmp_path, pattern, keep):
    assert train(tmp_path, run_config()) == 0
    newest = checkpoint.find_latest(tmp_path / "checkpoints")
    damaged = next(newest.glob(pattern))
    if keep is None:
        damaged.unlink()
    else:
        os.truncate(damaged, keep)
    assert train(tmp_path, run_config()) == 2
    error = (tmp_path / "error").read_text()
    assert error.startswith(f"{newest}")
    assert error.endswith(f"delete {newest} to resume from the checkpoint before it")
    assert "damaged" in error
    assert "\n" not in error
    shutil.rmtree(newest)
    assert train(tmp_path, run_config()) == 0
    assert len(losses(tmp_path)) == 10


def test_a_line_of_metrics_that_was_cut_off_is_dropped(tmp_path):
    assert train(tmp_path, run_config()) == 0
    shutil.rmtree(tmp_path / "checkpoints" / "step-00000010")
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:4]) + '{"step": 5, "lo')
    assert train(tmp_path, run_config()) == 0
    assert [record["step"] for record in metrics(tmp_path)] == [1, 2, 3, 4, 6, 7, 8, 9, 10]


def _train_on_nan(directory: Path, data_digest: str) -> None:
    """As train_process.train, with a loss of NaN from the seventh forward pass on."""
    from cadmus.train import loop

    seen = []

    def cross_entropy(logits, *arguments, **options):
        seen.append(1)
        loss = torch.nn.functional.cross_entropy(logits, *arguments, **options)
        return loss * torch.nan if len(seen) >= 7 else loss

    class Broken:
        pass

    Broken.cross_entropy = staticmethod(cross_entropy)
    loop.F = Broken
    train_process.train(directory, data_digest)
