"""Checkpoints that a run is resumed from.

A checkpoint is a directory ``step-00001000`` with the training state (:mod:`cadmus.train.state`) as
safetensors and ``meta.json``.  It gets that name once it is complete and flushed to the disk, so whatever has
the name can be resumed from, even after a power cut, with any number of ranks.
"""

import errno
import fcntl
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import torch.distributed
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from cadmus import config, isa
from cadmus.common.files import as_input_error, flush, flush_directory
from cadmus.common.provenance import commit, versions
from cadmus.errors import InputError
from cadmus.train import state

METADATA = "meta.json"
STATE = "state.safetensors"
LOCK = "lock"
UNFINISHED = "unfinished-"
VISIBLE_SECONDS = 120
"""How late a shared file system may show another node a checkpoint."""
FREE = {"checkpoint_every", "keep_checkpoints", "snapshots", "ranks", "compile"}
"""Fields of the section train that may change when a run resumes: they change losses by rounding at most."""


def describe(run: config.Config, data_digest: str, world_size: int) -> dict[str, Any]:
    """What a checkpoint says of the run it belongs to: the whole config and what it was applied to."""
    values = run.model_dump(mode="json")
    # Under torchrun the number of ranks is not the config's.
    values["train"]["ranks"] = world_size
    return {"instruction_set": isa.digest(), "data": data_digest, "config": values}


def _identity(description: dict[str, Any]) -> dict[str, Any]:
    """Everything that the losses of a run depend on, as one flat mapping."""
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
    """Keep other trainings out of a directory of checkpoints; all ranks enter together.

    Args:
        directory: made if it does not exist.
        log: takes a line if the file system has no locks, as Lustre mounted without flock.

    Raises:
        InputError: another training is in it, or it cannot be written to.
    """
    problem: list[str | None] = [None]
    with ExitStack() as stack:
        if torch.distributed.get_rank() == 0:
            try:
                directory.mkdir(parents=True, exist_ok=True)
                lock = stack.enter_context((directory / LOCK).open("a+", encoding="utf-8"))
                _lock(lock, log)
                lock.truncate(0)
                print(os.getpid(), file=lock, flush=True)
            except BlockingIOError:
                owner = (directory / LOCK).read_text(encoding="utf-8").strip()
                problem = [
                    f"{directory}: the training of process {owner} writes its checkpoints here; wait for it "
                    "or stop it"
                ]
            except OSError as error:
                problem = [f"cannot write checkpoints to {directory}: {error.strerror}"]
        torch.distributed.broadcast_object_list(problem)
        if problem[0] is not None:
            raise InputError(problem[0])
        yield


def _lock(file: TextIO, log: Callable[[str], None]) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.ENOTSUP):
            raise
        log(f"{file.name}: the file system has no locks; start no second training with these checkpoints")


def save(
    engine: Any, directory: Path, step: int, description: dict[str, Any], progress: dict[str, Any], keep: int
) -> None:
    """Save together with the other ranks, then remove all but the newest ``keep`` checkpoints.

    Args:
        engine: DeepSpeed's.
        directory: holds the checkpoints of this run and nothing else.
        step: how many steps are done.
        description: as :func:`describe` gives it.
        progress: what :func:`opened` is to give beside the step.
        keep: at least 1.

    Raises:
        InputError: there is no space or no permission; other ranks may not know.
    """
    tensors = state.gather(engine)
    if torch.distributed.get_rank() == 0:
        metadata = {
            "step": step,
            "adam_steps": state.count_adam_steps(engine),
            "progress": progress,
            **description,
            "versions": versions(),
            "commit": commit(),
        }
        name = f"step-{step:08d}"
        writing = directory / f"{UNFINISHED}{name}"
        try:
            with as_input_error(directory / name):
                _write(writing, directory / name, tensors, metadata)
        except InputError:
            # What is of no use should not take the last space.
            shutil.rmtree(writing, ignore_errors=True)
            raise
        for old in _finished(directory)[:-keep]:
            _remove(old)
        for abandoned in directory.glob(f"{UNFINISHED}*"):
            shutil.rmtree(abandoned, ignore_errors=True)
    torch.distributed.barrier()


def _write(writing: Path, checkpoint: Path, tensors: dict[str, Tensor], metadata: dict[str, Any]) -> None:
    shutil.rmtree(writing, ignore_errors=True)
    writing.mkdir(parents=True)
    save_file(tensors, writing / STATE)
    (writing / METADATA).write_text(json.dumps(metadata, indent=2) + "\n", encoding="utf-8")
    # The files first: a name must not outlive a power cut that what it names does not.
    flush_directory(writing)
    _remove(checkpoint)
    writing.rename(checkpoint)
    flush(checkpoint.parent)


def find_latest(directory: Path) -> Path | None:
    """The newest checkpoint that is whole, or None."""
    finished = _finished(directory)
    return finished[-1] if finished else None


def find_common_latest(directory: Path) -> Path | None:
    """The checkpoint that the first rank finds, for all ranks together.

    Raises:
        InputError: this node does not see it; other ranks may.
    """
    found = [find_latest(directory) if torch.distributed.get_rank() == 0 else None]
    torch.distributed.broadcast_object_list(found)
    latest = found[0]
    if latest is not None:
        # A shared file system may show a file late.
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
    """A checkpoint that is open for reading.

    Attributes:
        step: how many steps are done.
        adam_steps: how many Adam has counted.
        progress: as it was saved.
    """

    path: Path
    step: int
    adam_steps: int
    progress: dict[str, Any]
    _file: Any

    def tensor(self, name: str) -> Tensor:
        """A tensor of the training state.

        Args:
            name: a :func:`cadmus.train.state.key`.

        Raises:
            InputError: the file is damaged.
        """
        try:
            tensor: Tensor = self._file.get_tensor(name)
            return tensor
        except SafetensorError as error:
            raise _damaged(self.path / STATE, error) from None


@contextmanager
def opened(checkpoint: Path, description: dict[str, Any]) -> Iterator[Saved]:
    """Open a checkpoint of the run that ``description`` describes.

    Raises:
        InputError: it belongs to a run with other data, model or training, or is damaged.
    """
    metadata = _metadata(checkpoint)
    found, expected = metadata["identity"], _identity(description)
    for key in {**expected, **found}:
        if found.get(key) != expected.get(key):
            raise InputError(
                f"{checkpoint} has {key} {found.get(key)}, this run has {expected.get(key)}; "
                f"delete {checkpoint.parent} or give the run another name"
            )
    try:
        file = safe_open(checkpoint / STATE, "pt")
    except (OSError, SafetensorError) as error:
        raise _damaged(checkpoint / STATE, error) from None
    with file:
        yield Saved(checkpoint, metadata["step"], metadata["adam_steps"], metadata["progress"], file)


def _metadata(checkpoint: Path) -> dict[str, Any]:
    try:
        metadata = json.loads((checkpoint / METADATA).read_text(encoding="utf-8"))
        return {
            "step": metadata["step"],
            "adam_steps": metadata["adam_steps"],
            "progress": metadata["progress"],
            "identity": _identity(metadata),
        }
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise _damaged(checkpoint / METADATA, error) from None


def _damaged(path: Path, error: Exception) -> InputError:
    reason = (str(error).splitlines() or [""])[0][:200] or type(error).__name__
    checkpoint = path if path.is_dir() else path.parent
    return InputError(
        f"{path}: damaged ({reason}); delete {checkpoint}, and training goes on from the checkpoint before it"
    )


def _remove(checkpoint: Path) -> None:
    """Remove a checkpoint, which has its name no more while some of its files are left."""
    if checkpoint.exists():
        abandoned = checkpoint.with_name(f"{UNFINISHED}removed-{checkpoint.name}")
        shutil.rmtree(abandoned, ignore_errors=True)
        checkpoint.rename(abandoned)
        shutil.rmtree(abandoned)


def _finished(directory: Path) -> list[Path]:
    """Whole checkpoints, the newest last."""
    return sorted(path.parent for path in directory.glob(f"step-*/{METADATA}"))
