"""Checkpoints that a run is resumed from.

A checkpoint is a directory ``step-00001000`` that DeepSpeed fills.  It gets that name once it is whole and on
the disk, so whatever bears it can be resumed from, also after the machine went down.  ``latest`` names the
newest one for DeepSpeed's own tools.
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
from cadmus.files import flush, flush_directory, replacing, reported
from cadmus.provenance import commit, versions
from cadmus.train import universal

METADATA = "meta.json"
LOCK = "lock"
UNFINISHED = "unfinished-"
CADENCE = {"checkpoint_every", "keep_checkpoints", "snapshots"}
"""The fields of the section train that do not change the losses."""
RANKS = "train.ranks"
"""The one difference with which a checkpoint can still be resumed from: losses differ by rounding."""


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
        **{f"train.{key}": value for key, value in values["train"].items() if key not in CADENCE},
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
    engine: Any, directory: Path, step: int, description: dict[str, Any], progress: dict[str, Any], keep: int
) -> None:
    """Save together with the other ranks, then remove all but the newest ``keep`` checkpoints.

    Args:
        engine: DeepSpeed's.
        directory: holds the checkpoints of this run and nothing else.
        step: how many steps are done.
        description: as :func:`describe` gives it.
        progress: what :func:`load` is to return beside the step.
        keep: at least 1.

    Raises:
        InputError: there is no space or no permission; other ranks may not know.
    """
    name = f"step-{step:08d}"
    writing = directory / f"{UNFINISHED}{name}"
    try:
        with reported(directory / name):
            _save(engine, writing, name, step, description, progress, keep)
    except InputError:
        # What is of no use should not take the last space.
        shutil.rmtree(writing, ignore_errors=True)
        raise


def _save(
    engine: Any,
    writing: Path,
    name: str,
    step: int,
    description: dict[str, Any],
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
            "progress": progress,
            **description,
            "versions": versions(),
            "commit": commit(),
        }
        (writing / METADATA).write_text(json.dumps(metadata, indent=2) + "\n", encoding="utf-8")
        # The files first: a name must not outlive a power cut that what it names does not.
        flush_directory(writing)
        _remove(directory / name)
        writing.rename(directory / name)
        with replacing(directory / "latest") as temporary:
            temporary.write_text(name, encoding="utf-8")
        flush(directory)
        for old in _finished(directory)[:-keep]:
            _remove(old)
        for abandoned in directory.glob(f"{UNFINISHED}*"):
            shutil.rmtree(abandoned, ignore_errors=True)
    torch.distributed.barrier()


def find_latest(directory: Path) -> Path | None:
    """The newest checkpoint that is whole, or None."""
    finished = _finished(directory)
    return finished[-1] if finished else None


def check(checkpoint: Path, description: dict[str, Any]) -> bool:
    """Check that resuming from a checkpoint gives the losses of this run.

    Returns:
        Whether it has to be converted, being of another number of ranks.

    Raises:
        InputError: it belongs to a run with other data, model or training, or is damaged.
    """
    found, expected = _metadata(checkpoint)["identity"], _identity(description)
    different = [key for key in {**expected, **found} if found.get(key) != expected.get(key)]
    for key in different:
        if key != RANKS:
            raise InputError(
                f"{checkpoint} has {key} {found.get(key)}, this run has {expected.get(key)}; "
                f"delete {checkpoint.parent} or give the run another name"
            )
    if different and not universal.convertible(description["config"]["train"]):
        raise InputError(
            f"{checkpoint} has {RANKS} {found[RANKS]}, this run has {expected[RANKS]}; "
            "the optimizer muon can go on with others in bf16 only: "
            f"set ranks {found[RANKS]} or delete {checkpoint.parent}"
        )
    return bool(different)


def load(engine: Any, checkpoint: Path, convert: bool = False) -> tuple[int, dict[str, Any]]:
    """Put the engine back to where it was; returns the steps done and the progress that was saved.

    Args:
        engine: DeepSpeed's, made for the same value of ``convert``.
        checkpoint: one that :func:`check` accepted.
        convert: what :func:`check` returned.

    Raises:
        InputError: a file is missing or damaged, or there is no space; other ranks may not know.
    """
    metadata = _metadata(checkpoint)
    with _converted(checkpoint) if convert else contextlib.nullcontext(checkpoint) as source:
        try:
            with contextlib.redirect_stdout(io.StringIO()):  # DeepSpeed prints the names of its variables
                engine.load_checkpoint(str(source.parent), tag=source.name)
        except Exception as error:
            # Whatever is missing or cut off shows in an error of its own of DeepSpeed, torch or pickle.
            raise _damaged(checkpoint, error) from None
    return metadata["step"], metadata["progress"]


def _convert(checkpoint: Path, target: Path) -> None:
    try:
        universal.convert(checkpoint, target)
    except FileNotFoundError as error:
        # Of what is read; whatever is written is made.
        raise _damaged(checkpoint, error) from None


@contextmanager
def _converted(checkpoint: Path) -> Iterator[Path]:
    """A checkpoint converted by the first rank for all of them, as long as the context lasts.

    The checkpoint itself stays until newer ones of this number of ranks take its place.
    """
    directory = checkpoint.with_name(f"{UNFINISHED}universal-{checkpoint.name}")
    first = torch.distributed.get_rank() == 0
    try:
        if first:
            shutil.rmtree(directory, ignore_errors=True)
            try:
                with reported(directory):
                    _convert(checkpoint, directory / checkpoint.name)
            except InputError:
                raise
            except Exception as error:
                raise _damaged(checkpoint, error) from None
        torch.distributed.barrier()
        yield directory / checkpoint.name
        torch.distributed.barrier()
    finally:
        if first:
            shutil.rmtree(directory, ignore_errors=True)


def _metadata(checkpoint: Path) -> dict[str, Any]:
    try:
        metadata = json.loads((checkpoint / METADATA).read_text(encoding="utf-8"))
        return {
            "step": metadata["step"],
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
