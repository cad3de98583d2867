"""Checkpoints to resume a training from.

A checkpoint is a directory ``step-00001000`` with the training state (:mod:`cadmus.train.state`) as
safetensors and ``meta.json``.  It gets that name once it is complete and flushed to disk, so every directory
of that name can be resumed from, even after a power cut, with any number of ranks.
"""

import errno
import fcntl
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
import torch.distributed
from pydantic import Field
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor
from typing_extensions import TypedDict

from cadmus import config, isa
from cadmus.common.files import as_input_error, flush, flush_directory
from cadmus.common.provenance import commit, versions
from cadmus.config.fields import STRICT, Count, NonNegative, Positive
from cadmus.errors import InputError, reading
from cadmus.train import state

METADATA = "meta.json"
STATE = "state.safetensors"
LOCK = "lock"
UNFINISHED = "unfinished-"
VISIBLE_SECONDS = 120
"""Time that a shared file system may take to show a checkpoint to another node."""
FREE = {"checkpoint_every", "keep_checkpoints", "snapshots", "ranks", "micro_batch_size", "compile"}
"""Fields of the section train that a resumed run may change: losses change by rounding at most."""


class _Config(TypedDict):
    __pydantic_config__ = STRICT  # type: ignore[misc]

    seed: Count
    model: dict[str, Any]
    train: dict[str, Any]


class _Progress(TypedDict):
    __pydantic_config__ = STRICT  # type: ignore[misc]

    loss: float
    completion_loss: float
    tokens: Count
    programs: Count
    flops: NonNegative
    seconds: NonNegative


class _Order(TypedDict):
    __pydantic_config__ = STRICT  # type: ignore[misc]

    # Those of cadmus.train.order.Pace: counts, and errors.
    pace: Annotated[list[list[Count | NonNegative]], Field(min_length=2, max_length=2)]
    errors: list[NonNegative]


class _Metadata(TypedDict):
    """The file ``meta.json`` of a checkpoint."""

    __pydantic_config__ = STRICT  # type: ignore[misc]

    step: Positive
    adam_steps: Count
    progress: _Progress
    order: _Order
    instruction_set: str
    data: str
    config: _Config


def describe(run: config.Config, data_digest: str, world_size: int) -> dict[str, Any]:
    """Return the description of a run for its checkpoints: config, dataset and instruction set."""
    values = run.model_dump(mode="json")
    # torchrun may start another number of ranks than the config has.
    values["train"]["ranks"] = world_size
    return {"instruction_set": isa.digest(), "data": data_digest, "config": values}


def _identity(description: dict[str, Any]) -> dict[str, Any]:
    """Return everything that the losses of a run depend on, as a flat mapping."""
    values = description["config"]
    return {
        "instruction set": description["instruction_set"],
        "data": description["data"],
        "seed": values["seed"],
        **{f"model.{key}": value for key, value in values["model"].items()},
        **{f"train.{key}": value for key, value in values["train"].items() if key not in FREE},
    }


@contextmanager
def exclusive(directory: Path, log: Callable[[str], None]) -> Iterator[None]:
    """Lock a directory of checkpoints; all ranks enter together.

    Args:
        directory: created if missing.
        log: takes a line if the file system has no locks, such as Lustre mounted without flock.

    Raises:
        InputError: another training holds the lock, or the directory cannot be written.
    """
    problem: list[str | None] = [None]
    with ExitStack() as stack:
        if torch.distributed.get_rank() == 0:
            path = directory / LOCK
            try:
                directory.mkdir(parents=True, exist_ok=True)
                lock = stack.enter_context(path.open("a+", encoding="utf-8"))
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError as error:
                    if error.errno not in (errno.ENOSYS, errno.ENOTSUP):
                        raise
                    log(f"{path}: the file system has no locks; start no second training here")
                lock.truncate(0)
                print(os.getpid(), file=lock, flush=True)
            except BlockingIOError:
                owner = path.read_text(encoding="utf-8").strip()
                problem = [
                    f"{directory}: process {owner} is training with these checkpoints; wait or stop it"
                ]
            except OSError as error:
                problem = [f"cannot write checkpoints to {directory}: {error.strerror}"]
        torch.distributed.broadcast_object_list(problem)
        if problem[0] is not None:
            raise InputError(problem[0])
        yield


def save(
    engine: Any,
    directory: Path,
    step: int,
    description: dict[str, Any],
    progress: dict[str, Any],
    order: dict[str, Any],
    keep: int,
) -> None:
    """Save a checkpoint and remove all but the newest ``keep``; all ranks call this together.

    Args:
        engine: DeepSpeed's.
        directory: checkpoints of this run.
        step: steps done.
        description: from :func:`describe`.
        progress, order: JSON values that :class:`Saved` returns.
        keep: at least 1.

    Raises:
        InputError: no space or permission; other ranks may not know.
    """
    tensors = state.gather(engine)
    if torch.distributed.get_rank() == 0:
        metadata = {
            "step": step,
            "adam_steps": state.count_adam_steps(engine),
            "progress": progress,
            "order": order,
            **description,
            "versions": versions(),
            "commit": commit(),
        }
        checkpoint = directory / _name(step)
        writing = directory / f"{UNFINISHED}{checkpoint.name}"
        try:
            with as_input_error(checkpoint):
                _write(writing, checkpoint, tensors, metadata)
        except InputError:
            # Free the space of an incomplete checkpoint.
            with suppress(OSError):
                _delete(writing)
            raise
        for old in _finished(directory)[:-keep]:
            _remove(old)
        _remove_unfinished(directory)
    torch.distributed.barrier()


def _write(writing: Path, checkpoint: Path, tensors: dict[str, Tensor], metadata: dict[str, Any]) -> None:
    _delete(writing)
    writing.mkdir(parents=True)
    save_file(tensors, writing / STATE)
    (writing / METADATA).write_text(json.dumps(metadata, indent=2) + "\n", encoding="utf-8")
    # Flush the contents before the name: after a power cut, a name must not be without them.
    flush_directory(writing)
    _remove(checkpoint)
    writing.rename(checkpoint)
    flush(checkpoint.parent)


def remove_all(directory: Path) -> None:
    """Remove the checkpoints of a completed run, and their directory if nothing else is in it.

    Raises:
        InputError: they cannot be removed.
    """
    with as_input_error(directory):
        for checkpoint in _finished(directory):
            _remove(checkpoint)
        _remove_unfinished(directory)
        (directory / LOCK).unlink(missing_ok=True)
        with suppress(OSError):
            directory.rmdir()


def _remove(checkpoint: Path) -> None:
    """Remove a checkpoint, its name before its files."""
    if checkpoint.exists():
        abandoned = checkpoint.with_name(f"{UNFINISHED}removed-{checkpoint.name}")
        _delete(abandoned)
        checkpoint.rename(abandoned)
        _delete(abandoned)


def _delete(directory: Path) -> None:
    """Delete the files of a checkpoint, and its directory if nothing else is in it."""
    for name in (METADATA, STATE):
        (directory / name).unlink(missing_ok=True)
    with suppress(OSError):
        directory.rmdir()


def _remove_unfinished(directory: Path) -> None:
    for abandoned in _directories(directory, f"{UNFINISHED}(removed-)?"):
        with suppress(OSError):
            _delete(abandoned)


def _finished(directory: Path) -> list[Path]:
    """Return the complete checkpoints, the newest last."""
    return [path for path in _directories(directory) if (path / METADATA).exists()]


def _directories(directory: Path, prefix: str = "") -> list[Path]:
    """Return the paths named like a checkpoint after a prefix; others are not those of a training."""
    return sorted(path for path in directory.glob("*") if re.fullmatch(rf"{prefix}step-\d{{8,}}", path.name))


def find_latest(directory: Path) -> Path | None:
    """Return the newest complete checkpoint, or None."""
    return next(reversed(_finished(directory)), None)


def find_common_latest(directory: Path) -> Path | None:
    """Return the newest checkpoint that the first rank sees; all ranks call this together.

    Raises:
        InputError: this node does not see it; other ranks may.
    """
    found = [find_latest(directory) if torch.distributed.get_rank() == 0 else None]
    torch.distributed.broadcast_object_list(found)
    latest = found[0]
    if latest is not None:
        deadline = time.monotonic() + VISIBLE_SECONDS
        while not (latest / METADATA).exists():
            if time.monotonic() > deadline:
                raise InputError(
                    f"{latest}: not visible on this node after {VISIBLE_SECONDS} s; put the checkpoints in "
                    "a directory that all nodes share"
                )
            time.sleep(1)
    return latest


@dataclass(frozen=True)
class Saved:
    """A checkpoint that is open for reading; ``adam_steps`` is the step count of Adam."""

    path: Path
    step: int
    adam_steps: int
    progress: dict[str, Any]
    order: dict[str, Any]
    _file: Any

    def tensor(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """Read the tensor of a :func:`cadmus.train.state.key`.

        Raises:
            InputError: the file is damaged, or the tensor is not fp32, of another shape or not finite.
        """
        path, fix = self.path / STATE, _fix(self.path)
        with reading(path, fix):
            tensor: Tensor = self._file.get_tensor(name)
        found = tensor.dtype, tuple(tensor.shape)
        if found != (torch.float32, shape):
            raise InputError(
                f"{path}: {name}: must be torch.float32 {shape}, got {found[0]} {found[1]}; {fix}"
            )
        if not tensor.isfinite().all():
            raise InputError(f"{path}: {name}: has NaN or infinite values; {fix}")
        return tensor


@contextmanager
def opened(checkpoint: Path, description: dict[str, Any]) -> Iterator[Saved]:
    """Open a checkpoint of the run that ``description`` describes.

    Raises:
        InputError: another dataset, model or training wrote it, or it is damaged.
    """
    path, fix = checkpoint / METADATA, _fix(checkpoint)
    metadata: dict[str, Any] = {**config.read_json(path, _Metadata, fix)}
    step = metadata["step"]
    if checkpoint.name != _name(step):
        raise InputError(f"{path}: step: must be that of {checkpoint.name}, got {step}; {fix}")
    steps = description["config"]["train"]["steps"]
    found, expected = _identity(metadata), _identity(description)
    for key in {**expected, **found}:
        if found.get(key) != expected.get(key):
            raise InputError(
                f"{checkpoint} has {key} {found.get(key)}, this run has {expected.get(key)}; "
                f"delete {checkpoint.parent} or give the run another name"
            )
    if step > steps:
        raise InputError(f"{path}: step: must be at most train.steps {steps}, got {step}; {fix}")
    path = checkpoint / STATE
    with reading(path, fix):
        file = safe_open(path, "pt")
    with file:
        yield Saved(checkpoint, step, metadata["adam_steps"], metadata["progress"], metadata["order"], file)


def _name(step: int) -> str:
    return f"step-{step:08d}"


def _fix(checkpoint: Path) -> str:
    return f"delete {checkpoint} to resume from the checkpoint before it"
