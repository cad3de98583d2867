"""Trainings that end with one line: a NaN loss, too little memory, a full disk."""

import functools
import resource
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from cadmus.config import parse_config
from cadmus.errors import RankLocalError
from cadmus.train.loop import memory_errors
from tests.train import worker
from tests.train.runs import losses, run_config, train


def error_of(tmp_path: Path, values: dict, train_badly: Callable[..., None]) -> str:
    """Return the error of a training that fails in its process as ``train_badly`` does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker, "train", train_badly)
        assert train(tmp_path, values) == 2
    return (tmp_path / "error").read_text()


def test_a_nan_loss_ends_the_run(tmp_path):
    error = error_of(tmp_path, run_config(), _train_on_nan)
    assert "the loss is nan at step 7" in error
    assert str(tmp_path / "checkpoints" / "step-00000005") in error
    assert "\n" not in error
    assert not (tmp_path / "model").exists()


def _train_on_nan(directory: Path, data_digest: str) -> None:
    """As worker.train, with a loss of NaN from the seventh forward pass on."""
    from cadmus.train.objectives import objective

    seen = []

    def cross_entropy(logits, *arguments, **options):
        seen.append(1)
        loss = torch.nn.functional.cross_entropy(logits, *arguments, **options)
        return loss * torch.nan if len(seen) >= 7 else loss

    objective.F = SimpleNamespace(cross_entropy=cross_entropy)
    worker.train(directory, data_digest)


def test_too_large_a_model_ends_the_run(tmp_path):
    values = run_config()
    values["model"] = {"layers": 1, "width": 100_000, "heads": 2, "mlp": 64}
    assert error_of(tmp_path, values, _train_in_eight_gigabytes) == (
        "too little memory; set a train.micro_batch_size below 32, "
        "or a smaller model than layers 1, width 100000, heads 2, mlp 64"
    )


def _train_in_eight_gigabytes(directory: Path, data_digest: str) -> None:
    """As worker.train, with so much address space that no other process is in danger."""
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, resource.RLIM_INFINITY))
    worker.train(directory, data_digest)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("[enforce fail] err == 0. DefaultCPUAllocator: can't allocate memory:"),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
        MemoryError(),
    ],
    ids=["cpu", "cuda", "numpy"],
)
def test_errors_of_allocators_name_the_sizes(error):
    run = parse_config(run_config(micro_batch_size=8), "test")
    with pytest.raises(RankLocalError) as caught, memory_errors(run, ranks=1):
        raise error
    assert str(caught.value) == (
        "too little memory; set a train.micro_batch_size below 8, "
        "or a smaller model than layers 2, width 32, heads 2, mlp 64"
    )


def test_a_checkpoint_that_cannot_be_written_ends_the_run(tmp_path):
    # No file above 16 KiB, which a checkpoint alone needs.
    error = error_of(tmp_path, run_config(), functools.partial(_train_with_small_files, 16 << 10))
    checkpoints = tmp_path / "checkpoints"
    assert error == f"cannot write {checkpoints / 'step-00000005'}: File too large"
    assert not list(checkpoints.glob("*step*"))
    assert train(tmp_path, run_config()) == 0
    assert len(losses(tmp_path)) == 10


def test_metrics_that_cannot_be_written_end_the_run(tmp_path):
    error = error_of(tmp_path, run_config(), functools.partial(_train_with_small_files, 1 << 10))
    assert error == f"cannot write {tmp_path / 'metrics.jsonl'}: File too large"


def _train_with_small_files(limit: int, directory: Path, data_digest: str) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    worker.train(directory, data_digest)
