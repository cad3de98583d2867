"""Checkpoints: contents, order of writing, locks, damage, and runs they do not belong to."""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from filelock import FileLock
from safetensors.torch import load_file, save_file

from cadmus import store
from cadmus.config import parse_config
from cadmus.errors import InputError
from cadmus.train import checkpoint
from cadmus.train.paths import LOCK, METADATA, STATE, find_checkpoints, step_of
from tests import forging
from tests.train.runs import losses, run_config, train

TWO_STEPS = run_config(steps=2)


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """A training of two steps."""
    directory = tmp_path_factory.mktemp("finished")
    assert train(directory, TWO_STEPS) == 0
    return directory


@pytest.fixture
def run(finished, tmp_path) -> Path:
    """A copy of the finished training."""
    return shutil.copytree(finished, tmp_path / "run")


@pytest.fixture
def one_rank(monkeypatch) -> None:
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 0)
    monkeypatch.setattr(torch.distributed, "broadcast_object_list", lambda objects: None)


def test_a_checkpoint_is_sealed_with_the_digest_of_its_state(run, one_rank):
    newest = find_checkpoints(run / "checkpoints")[-1]
    found = store.read_json(newest / METADATA, "checkpoint", checkpoint.Metadata)
    assert found.cadmus.files == {STATE: store.digest_of(newest / STATE)}
    assert found.cadmus.commit
    assert found.step == 2
    assert found.values.progress.loss == losses(run)[-1]
    assert found.description.items() >= {"data": "data", "seed": 1, "model.width": 32}.items()
    with pytest.raises(InputError, match=r"step-00000002 has train\.new None, this run has 1; delete"):
        checkpoint.find_latest(run / "checkpoints", {**found.description, "train.new": 1})


def test_a_checkpoint_of_a_version_with_fewer_fields_resumes(run, one_rank):
    newest = find_checkpoints(run / "checkpoints")[-1]
    now = store.read_json(newest / METADATA, "checkpoint", checkpoint.Metadata).description
    later = {"model.activation": "gelu", "train.weight_decay": 0.0, "train.reinforcement": {"samples": 9}}
    of_metadata(lambda tree: [tree["description"].pop(key) for key in later])(newest)
    # Without reinforcement, its settings do not count.
    saved = checkpoint.find_latest(run / "checkpoints", now | later)
    assert saved is not None
    assert saved.step == 2
    with pytest.raises(InputError, match=r"has train\.weight_decay None, this run has 0\.1; delete"):
        checkpoint.find_latest(run / "checkpoints", now | {"train.weight_decay": 0.1})


def test_a_kill_while_saving_leaves_the_checkpoint_before(run, one_rank, monkeypatch):
    def save(step: int) -> None:
        checkpoint.save(None, run / "checkpoints", step, {}, {})

    def killed(*_) -> None:
        raise KeyboardInterrupt

    def steps() -> list[int]:
        return [step_of(path) for path in find_checkpoints(run / "checkpoints")]

    monkeypatch.setattr(checkpoint, "gather", lambda engine: {"weight/a": torch.zeros(1)})
    monkeypatch.setattr(checkpoint, "count_adam_steps", lambda engine: 1)
    with monkeypatch.context() as patch:
        patch.setattr(store, "write_json", killed)
        with pytest.raises(KeyboardInterrupt):
            save(3)
    assert (run / "checkpoints/step-00000003" / STATE).exists(), "the metadata are last"
    assert steps() == [2]
    save(3)
    assert steps() == [2, 3]
    save(4)
    assert steps() == [3, 4]


def test_checkpoints_of_another_run_are_rejected(run):
    model = {**TWO_STEPS["model"], "mlp": 65}
    cases = [
        ({**TWO_STEPS, "model": model}, "data", "model.mlp 64, this run has 65"),
        (TWO_STEPS, "other", "data data, this run has other"),
    ]
    for changed, data_digest, message in cases:
        assert train(run, changed, data_digest) == 2
        error = (run / "error").read_text()
        assert message in error
        assert f"delete {run / 'checkpoints'}" in error
    free = {"checkpoint_every": 7, "micro_batch_size": 8}
    assert train(run, run_config(steps=2, **free)) == 0


def test_the_stage_of_zero_may_change():
    def described(**fields):
        return checkpoint.describe(parse_config(run_config(recipe="paper", **fields), "x.yaml"), "data")

    assert described(zero_stage=3) == described()
    assert described(clip=0.5) != described()


def test_two_trainings_cannot_share_checkpoints(tmp_path):
    checkpoints = tmp_path / "checkpoints"
    checkpoints.mkdir()
    with FileLock(checkpoints / LOCK):
        assert train(tmp_path, TWO_STEPS) == 2
    said = f"{checkpoints}: another process is training with these checkpoints; wait or stop it"
    assert (tmp_path / "error").read_text() == said
    assert train(tmp_path, TWO_STEPS) == 0


def test_a_damaged_checkpoint_is_named(run):
    state = find_checkpoints(run / "checkpoints")[-1] / STATE
    os.truncate(state, 50_000)
    assert train(run, TWO_STEPS) == 2
    said = "damaged or changed since Cadmus wrote it; delete its directory to resume from the checkpoint"
    assert (run / "error").read_text() == f"{state}: {said} before it"


def of_metadata(change: Callable[[dict], object]) -> Callable[[Path], None]:
    """Return what changes the metadata of a checkpoint and seals them again."""
    return lambda checkpoint: forging.edit(checkpoint / METADATA, change)


def of_state(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Path], None]:
    """Return what changes the final LayerNorm of a checkpoint."""

    def write(checkpoint: Path) -> None:
        tensors = load_file(checkpoint / STATE)
        name = "weight/final_layer_norm.weight"
        save_file({**tensors, name: change(tensors[name])}, checkpoint / STATE)
        forging.seal_all(checkpoint / STATE)

    return write


@pytest.mark.parametrize(
    ("forge", "problem"),
    [
        (lambda path: path.rename(path.with_name("step-9999999999")), "step-9999999999: is of step 2; give"),
        (of_metadata(lambda tree: tree.update(adam_steps=9)), "adam_steps: must be at most step 2"),
        (of_metadata(lambda tree: tree["cadmus"].pop("files")), "cadmus.files: must have state"),
        (of_state(lambda of: of[:-1].clone()), r"weight: must be finite numbers of shape \(32,\)"),
        (of_state(lambda of: of * torch.nan), r"weight: must be finite numbers of shape \(32,\)"),
    ],
)
def test_a_forged_checkpoint_is_one_line(run, forge, problem):
    forge(find_checkpoints(run / "checkpoints")[-1])
    assert train(run, TWO_STEPS) == 2
    error = (run / "error").read_text()
    assert re.search(problem, error)
    assert "\n" not in error


def test_a_pipe_for_metrics_is_one_line(run):
    (run / "metrics.jsonl").unlink()
    os.mkfifo(run / "metrics.jsonl")
    assert train(run, TWO_STEPS) == 2
    problem = "not a regular file; delete the checkpoints to start again"
    assert (run / "error").read_text() == f"{run / 'metrics.jsonl'}: {problem}"


def test_a_directory_without_metadata_is_no_checkpoint(tmp_path, one_rank):
    description = checkpoint.describe(parse_config(run_config(ranks=1), "x.yaml"), "data")
    assert checkpoint.find_latest(tmp_path / "nothing", description) is None
    (tmp_path / "step-00000002").mkdir()
    (tmp_path / "step-00000002" / STATE).touch()
    assert checkpoint.find_latest(tmp_path, description) is None
    (tmp_path / "step-00000002" / METADATA).write_text("{}")
    with pytest.raises(InputError, match="not sealed"):
        checkpoint.find_latest(tmp_path, description)
