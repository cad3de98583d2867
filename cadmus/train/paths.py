"""The files of a training: checkpoints, metrics, snapshots and the exported model.

Snapshots are exports along the way, to measure accuracy against compute. Snakemake deletes the outputs of a
failed job, so a training writes metrics and snapshots under other names, from which it can be resumed, and
publishes them when the model is exported.

What is removed is named exactly as a training names it; other files of the user stay.
"""

import json
import os
import re
import shutil
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from cadmus import config, store
from cadmus.errors import InputError, reading
from cadmus.model import FILES as MODEL_FILES

METADATA = "meta.json"
STATE = "state.safetensors"
LOCK = ".cadmus-lock"
MOST_CHARACTERS = 1_000_000
"""Of a line of metrics."""
KEPT_CHECKPOINTS = 2
"""Of a training, the newest."""
FIRST_FRACTION = 0.01
"""Fraction of the steps before the first snapshot, however many there are."""


@dataclass(frozen=True)
class RunPaths:
    """The files of a training: directories but for ``metrics``, JSON lines (:mod:`cadmus.train.metrics`)."""

    checkpoints: Path
    export: Path
    metrics: Path
    snapshots: Path | None = None

    def check(self) -> None:
        """Check before a training that metrics replace nothing but metrics."""
        if self.metrics.suffix != ".jsonl":
            raise InputError(f"{self.metrics}: the file of metrics must end in .jsonl")
        for path in (self.metrics, self.partial().metrics):
            check_metrics(path)

    def partial(self) -> "RunPaths":
        """The paths to train with until the model is exported."""
        snapshots = self.snapshots and _partial(self.snapshots)
        return replace(self, metrics=_partial(self.metrics), snapshots=snapshots)

    def publish(self) -> None:
        """Put the files of :meth:`partial` into place, then remove them and the checkpoints.

        Until everything is in place, nothing is removed: after an error or a kill, the same command exports
        the last checkpoint again. The checkpoints go before the partial metrics, without which a resumed run
        would lose steps.
        """
        partial = self.partial()
        lines = partial.metrics.read_text(encoding="utf-8").splitlines()
        store.write_lines(self.metrics, "metrics", [json.loads(line) for line in lines])
        if self.snapshots is not None and partial.snapshots is not None:
            with store.as_input_error(self.snapshots):
                remove_snapshots(self.snapshots)
                for snapshot in find_snapshots(partial.snapshots):
                    shutil.copytree(
                        snapshot, self.snapshots / snapshot.name, copy_function=_link, dirs_exist_ok=True
                    )
        remove_checkpoints(self.checkpoints, keep=0)
        with store.as_input_error(partial.metrics):
            partial.metrics.unlink()
            if partial.snapshots is not None:
                remove_snapshots(partial.snapshots)
                with suppress(OSError):
                    partial.snapshots.rmdir()


def _partial(path: Path) -> Path:
    return path.with_name(f"{path.stem}.partial{path.suffix}")


def _link(source: str, target: str) -> None:
    """Link a file, or copy it on a file system without links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def step_path(directory: Path, step: int) -> Path:
    """Return the directory of the checkpoint or snapshot of a step."""
    return directory / f"step-{step:08d}"


def step_of(path: Path) -> int:
    return int(path.name.removeprefix("step-"))


def step_paths(directory: Path) -> list[Path]:
    # Only names that a training gives: what the user put there stays.
    paths = (path for path in directory.glob("step-*") if re.fullmatch(r"step-\d{8,}", path.name))
    return sorted(paths, key=step_of)


def find_checkpoints(directory: Path) -> list[Path]:
    """Return the complete checkpoints, the newest last."""
    return [path for path in step_paths(directory) if (path / METADATA).exists()]


def remove_checkpoints(directory: Path, keep: int) -> None:
    """Remove incomplete checkpoints and all but the newest ``keep``; with 0, the directory if it is empty."""
    kept = find_checkpoints(directory)[-keep:] if keep else []
    with store.as_input_error(directory):
        for path in step_paths(directory):
            if path not in kept:
                remove_checkpoint(path)
        if not keep:
            (directory / LOCK).unlink(missing_ok=True)
            with suppress(OSError):
                directory.rmdir()


def remove_checkpoint(path: Path) -> None:
    """Remove the files of a checkpoint, and its directory if nothing else is in it."""
    # Metadata first: without them, the checkpoint does not count as complete. A killed writer leaves a part.
    remove_files(path, (METADATA, STATE))


def snapshot_steps(train: config.Train) -> set[int]:
    """Return the steps after which to export: evenly spaced in the logarithm, the last step included."""
    count = train.snapshots
    fractions = [FIRST_FRACTION ** (1 - (k + 1) / count) for k in range(count)]
    return {max(1, round(fraction * train.steps)) for fraction in fractions}


def find_snapshots(directory: Path) -> list[Path]:
    """Return all snapshots, the earliest first."""
    snapshots = [
        path for path in step_paths(directory) if any((path / name).exists() for name in MODEL_FILES)
    ]
    if not snapshots:
        raise InputError(f"{directory}: no snapshots; give the directory of `cadmus train --snapshots`")
    return snapshots


def remove_snapshots(directory: Path, after: int = 0) -> None:
    """Remove the snapshots after a step; files of the user in them stay."""
    for path in step_paths(directory):
        if step_of(path) > after:
            remove_files(path, MODEL_FILES)


def remove_files(directory: Path, names: Collection[str]) -> None:
    """Remove files of Cadmus, or what a killed writer left of them; then the directory, if it is empty."""
    for name in names:
        for path in (directory / name, *store.left_by_killed(directory / name)):
            path.unlink(missing_ok=True)
    with suppress(OSError):
        directory.rmdir()


def check_metrics(path: Path) -> None:
    """Check that a file that metrics will replace has metrics, or nothing."""
    if not path.exists():
        return
    with reading(path), path.open(encoding="utf-8") as file:
        first = file.readline(MOST_CHARACTERS)
    try:
        is_metrics = not first.strip() or isinstance(json.loads(first).get("step"), int)
    except (ValueError, AttributeError):
        is_metrics = False
    if not is_metrics:
        raise InputError(
            f"{path}: is not a file of metrics, and metrics would replace it; move it, or choose another path"
        )
