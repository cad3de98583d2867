"""Checkpoints that a run is resumed from.

A checkpoint is a directory ``step-00001000`` that DeepSpeed fills.  It gets that name once it is whole, so
whatever bears it can be resumed from.  ``latest`` names the newest one for DeepSpeed's own tools.
"""

import contextlib
import fcntl
import io
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch.distributed

from cadmus import config, isa
from cadmus.errors import InputError
from cadmus.files import replacing, reported
from cadmus.provenance import commit, versions

METADATA = "meta.json"
LOCK = "lock"
UNFINISHED = "unfinished-"
CADENCE = {"checkpoint_every", "keep_checkpoints"}
"""The fields of the section train that do not change the losses."""


def identity(run: config.Config, data_digest: str, world_size: int) -> dict[str, Any]:
    """Everything that the losses of a run depend on, as one flat mapping."""
    train = run.train.model_dump(exclude=CADENCE | {"ranks"})
    return {
        "instruction set": isa.digest(),
        "data": data_digest,
        "seed": run.seed,
        "train.ranks": world_size,
        **{f"model.{key}": value for key, value in run.model.model_dump().items()},
        **{f"train.{key}": value for key, value in train.items()},
    }


@contextmanager
def exclusive(directory: Path) -> Iterator[None]:
    """Keep other trainings out of a directory of checkpoints; all ranks enter together.

    Raises:
        InputError: another training is in it, or it cannot be written to.
    """
    problem: list[str | None] = [None]
    with ExitStack() as stack:
        if torch.distributed.get_rank() == 0:
            try:
                directory.mkdir(parents=True, exist_ok=True)
                lock = stack.enter_context((directory / LOCK).open("a+", encoding="utf-8"))
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
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


def save(
    engine: Any, directory: Path, step: int, run_identity: dict[str, Any], progress: dict[str, Any], keep: int
) -> None:
    """Save together with the other ranks, then remove all but the newest ``keep`` checkpoints.

    Args:
        engine: DeepSpeed's.
        directory: holds the checkpoints of this run and nothing else.
        step: how many steps are done.
        run_identity: as :func:`identity` gives it.
        progress: what :func:`load` is to return beside the step.
        keep: at least 1.

    Raises:
        InputError: there is no space or no permission; other ranks may not know.
    """
    name = f"step-{step:08d}"
    writing = directory / f"{UNFINISHED}{name}"
    try:
        with reported(directory / name):
            _save(engine, writing, name, step, run_identity, progress, keep)
    except InputError:
        # What is of no use should not take the last space.
        shutil.rmtree(writing, ignore_errors=True)
        raise


def _save(
    engine: Any,
    writing: Path,
    name: str,
    step: int,
    run_identity: dict[str, Any],
    progress: dict[str, Any],
    keep: int,
) -> None:
    directory = writing.parent
    first = torch.distributed.get_rank() == 0
    if first:
        shutil.rmtree(writing, ignore_errors=True)
    torch.distributed.barrier()
    engine.save_checkpoint(str(directory), tag=writing.name, save_latest=False)
    torch.distributed.barrier()
    if first:
        metadata = {
            "step": step,
            "identity": run_identity,
            "progress": progress,
            "versions": versions(),
            "commit": commit(),
        }
        (writing / METADATA).write_text(json.dumps(metadata, indent=2) + "\n", encoding="utf-8")
        # The same step is there already when a finished run was resumed.
        shutil.rmtree(directory / name, ignore_errors=True)
        writing.rename(directory / name)
        with replacing(directory / "latest") as temporary:
            temporary.write_text(name, encoding="utf-8")
        for old in _finished(directory)[:-keep]:
            shutil.rmtree(old)
        for abandoned in directory.glob(f"{UNFINISHED}*"):
            shutil.rmtree(abandoned, ignore_errors=True)
    torch.distributed.barrier()


def find_latest(directory: Path) -> Path | None:
    """The newest checkpoint that is whole, or None."""
    finished = _finished(directory)
    return finished[-1] if finished else None


def check_identity(checkpoint: Path, run_identity: dict[str, Any]) -> None:
    """Check that resuming from a checkpoint gives the losses of this run.

    Raises:
        InputError: it belongs to a run with other data, model or training, or is damaged.
    """
    found = _metadata(checkpoint)["identity"]
    for key in {**run_identity, **found}:
        if found.get(key) != run_identity.get(key):
            raise InputError(
                f"{checkpoint} has {key} {found.get(key)}, this run has {run_identity.get(key)}; "
                f"delete {checkpoint.parent} or give the run another name"
            )


def load(engine: Any, checkpoint: Path) -> tuple[int, dict[str, Any]]:
    """Put the engine back to where it was; returns the steps done and the progress that was saved.

    Raises:
        InputError: a file is missing or damaged; other ranks may not know.
    """
    metadata = _metadata(checkpoint)
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # DeepSpeed prints the names of its variables
            engine.load_checkpoint(str(checkpoint.parent), tag=checkpoint.name)
    except Exception as error:
        # Whatever is missing or cut off shows in an error of its own of DeepSpeed, torch or pickle.
        raise _damaged(checkpoint, error) from None
    return metadata["step"], metadata["progress"]


def _metadata(checkpoint: Path) -> dict[str, Any]:
    try:
        metadata = json.loads((checkpoint / METADATA).read_text(encoding="utf-8"))
        return {key: metadata[key] for key in ("step", "identity", "progress")}
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise _damaged(checkpoint / METADATA, error) from None


def _damaged(path: Path, error: Exception) -> InputError:
    reason = (str(error).splitlines() or [""])[0][:200] or type(error).__name__
    checkpoint = path if path.is_dir() else path.parent
    return InputError(
        f"{path}: damaged ({reason}); delete {checkpoint}, and training goes on from the checkpoint before it"
    )


def _finished(directory: Path) -> list[Path]:
    """Whole checkpoints, the newest last."""
    return sorted(path.parent for path in directory.glob(f"step-*/{METADATA}"))
