"""Checkpoints: contents, locks, damage, and runs they do not belong to."""

import errno
import fcntl
import json
import os
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from cadmus import isa
from cadmus.config import parse_config
from cadmus.errors import InputError
from cadmus.train import checkpoint, state
from cadmus.train.metrics import START
from tests.train import worker
from tests.train.runs import (
    losses,
    run_config,
    train,
)


def test_metadata_of_a_checkpoint(tmp_path):
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


def test_a_checkpoint_is_flushed_before_it_gets_its_name(tmp_path):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker, "train", _train_and_trace)
        assert train(tmp_path, run_config(steps=1)) == 0
    done = (tmp_path / "trace").read_text().splitlines()
    named = done.index("rename step-00000001")
    written = {path.name for path in (tmp_path / "checkpoints" / "step-00000001").rglob("*")}
    before = (*written, "metrics.jsonl", "unfinished-step-00000001")
    assert {f"flush {name}" for name in before} <= set(done[:named])
    assert done.index("flush unfinished-step-00000001") > max(done.index(f"flush {name}") for name in written)
    assert "flush checkpoints" in done[named:]


def _train_and_trace(directory: Path, data_digest: str) -> None:
    """As worker.train, with a list of what was flushed and renamed."""
    fsync, rename = os.fsync, Path.rename
    trace = (directory / "trace").open("a", buffering=1)

    def traced_fsync(handle: int) -> None:
        fsync(handle)
        print("flush", Path(os.readlink(f"/proc/self/fd/{handle}")).name, file=trace)

    def traced_rename(path: Path, target: Path) -> Path:
        print("rename", target.name, file=trace)
        return rename(path, target)

    os.fsync, Path.rename = traced_fsync, traced_rename
    worker.train(directory, data_digest)


def test_checkpoints_of_another_run_are_rejected(tmp_path):
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


def test_two_trainings_cannot_share_checkpoints(tmp_path):
    values = run_config(steps=2)
    checkpoints = tmp_path / "checkpoints"
    checkpoints.mkdir()
    with (checkpoints / checkpoint.LOCK).open("w") as lock:
        print(1234, file=lock, flush=True)
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert train(tmp_path, values) == 2
    assert (tmp_path / "error").read_text().startswith(f"{checkpoints}: process 1234 is training")
    assert train(tmp_path, values) == 0


def test_a_file_system_without_locks_is_reported_once(tmp_path):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker, "train", _train_without_locks)
        assert train(tmp_path, run_config(steps=2)) == 0
    lock = tmp_path / "checkpoints" / checkpoint.LOCK
    said = f"{lock}: the file system has no locks; start no second training here"
    assert (tmp_path / "log").read_text().splitlines().count(said) == 1


def _train_without_locks(directory: Path, data_digest: str) -> None:
    def flock(file, operation):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    fcntl.flock = flock
    worker.train(directory, data_digest)


def test_all_ranks_resume_from_the_checkpoint_of_the_first(tmp_path, monkeypatch):
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
def test_a_damaged_checkpoint_is_named_and_the_previous_one_works(tmp_path, pattern, keep):
    assert train(tmp_path, run_config()) == 0
    newest = checkpoint.find_latest(tmp_path / "checkpoints")
    damaged = next(newest.glob(pattern))
    if keep is None:
        damaged.unlink()
    else:
        os.truncate(damaged, keep)
    assert train(tmp_path, run_config()) == 2
    error = (tmp_path / "error").read_text()
    assert error.removeprefix("cannot read ").startswith(f"{newest}")
    assert error.endswith(f"delete {newest} to resume from the checkpoint before it")
    assert "not readable" in error or "not valid JSON" in error or "No such file" in error
    assert "\n" not in error
    shutil.rmtree(newest)
    assert train(tmp_path, run_config()) == 0
    assert len(losses(tmp_path)) == 10


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("step",), "four", "step: must be an integer, got 'four'"),
        (("step",), -4, "step: must be at least 1, got -4"),
        (("step",), 9, "step: must be that of step-00000002, got 9"),
        (("adam_steps",), None, "adam_steps: must be an integer, got None"),
        (("progress",), None, "progress: must be a mapping, got None"),
        (("progress", "tokens"), 1.5, "progress.tokens: must be an integer, got 1.5"),
        (("progress", "loss"), float("nan"), "progress.loss: must be a finite number, got nan"),
        (("order",), {}, "order.pace: is missing"),
        (("config",), [], "config: must be a mapping, got []"),
        (("config", "train"), None, "config.train: must be a mapping, got None"),
    ],
)
def test_an_edited_checkpoint_is_one_line(tmp_path, place, value, message):
    directory = tmp_path / "step-00000002"
    directory.mkdir()
    description = checkpoint.describe(parse_config(run_config(ranks=1), "x.yaml"), "data", 1)
    progress = dict.fromkeys(START, 1)
    order = {"pace": [[0], [1.0]], "errors": [1.0]}
    metadata = {"step": 2, "adam_steps": 2, "progress": progress, "order": order, **description}
    section = metadata
    for key in place[:-1]:
        section = section[key]
    section[place[-1]] = value
    (directory / "meta.json").write_text(json.dumps(metadata))
    with pytest.raises(InputError) as caught, checkpoint.opened(directory, description):
        pass
    assert str(caught.value).startswith(f"{directory}/meta.json: {message}")
    assert str(caught.value).endswith(f"delete {directory} to resume from the checkpoint before it")


def opened(directory, steps=10, tensors=None):
    """Open a checkpoint of step 2 with some tensors."""
    directory.mkdir()
    description = checkpoint.describe(parse_config(run_config(ranks=1, steps=steps), "x.yaml"), "data", 1)
    order = {"pace": [[0], [1.0]], "errors": [1.0]}
    metadata = {"step": 2, "adam_steps": 2, "progress": dict.fromkeys(START, 1), "order": order}
    (directory / "meta.json").write_text(json.dumps({**metadata, **description}))
    save_file(tensors or {}, directory / "state.safetensors")
    return checkpoint.opened(directory, description)


def test_a_step_beyond_the_last_is_one_line(tmp_path):
    with pytest.raises(InputError, match=r"step: must be at most train\.steps 1, got 2; delete"):
        opened(tmp_path / "step-00000002", steps=1).__enter__()


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (torch.zeros(3, 2), r"must be torch.float32 \(2, 3\), got torch.float32 \(3, 2\)"),
        (torch.zeros(2, 3, dtype=torch.int32), r"must be torch.float32 \(2, 3\), got torch.int32 \(2, 3\)"),
        (torch.full((2, 3), float("nan")), "has NaN or infinite values"),
    ],
)
def test_a_tensor_that_does_not_fit_is_one_line(tmp_path, tensor, message):
    model = torch.nn.Linear(3, 2, bias=False)
    expected = pytest.raises(InputError, match=rf"state.safetensors: weight/weight: {message}; delete")
    with opened(tmp_path / "step-00000002", tensors={"weight/weight": tensor}) as saved, expected:
        state.load_weights(model, saved.tensor)


def test_a_deep_checkpoint_is_one_line(tmp_path):
    (tmp_path / "meta.json").write_text("[" * 100_000)
    with pytest.raises(InputError, match="nested too deeply"), checkpoint.opened(tmp_path, {}):
        pass
