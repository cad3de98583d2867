"""Snapshots: exports along the way of a training, to measure accuracy against compute."""

import shutil
from pathlib import Path

from cadmus import config
from cadmus.common.files import as_input_error
from cadmus.errors import InputError, near_path

FIRST_FRACTION = 0.01
"""Fraction of the steps before which there is no snapshot, however many there are."""


def snapshot_steps(train: config.Train) -> set[int]:
    """Return the steps after which to export: evenly spaced in the logarithm, the last step included.

    There are fewer than ``train.snapshots`` if several round to the same step.
    """
    count = train.snapshots
    fractions = [FIRST_FRACTION ** (1 - (k + 1) / count) for k in range(count)]
    return {max(1, round(fraction * train.steps)) for fraction in fractions}


def snapshot_path(directory: Path, step: int) -> Path:
    """Return the path of the snapshot of a step."""
    return directory / f"step-{step:08d}"


def step_of(path: Path) -> int:
    """Return the step of the snapshot at a path."""
    return int(path.name.removeprefix("step-"))


def remove_after(directory: Path, step: int) -> None:
    """Remove the snapshots of later steps, left by another run or one that was killed.

    Raises:
        InputError: they cannot be removed.
    """
    with as_input_error(directory):
        for path in directory.glob("step-*"):
            if path > snapshot_path(directory, step):
                shutil.rmtree(path)


def find_snapshots(directory: Path) -> list[Path]:
    """Return all snapshots, the earliest first.

    Raises:
        InputError: there are none.
    """
    found = sorted(path for path in directory.glob("step-*") if path.name.removeprefix("step-").isdecimal())
    if not found:
        fix = near_path(directory) or "; give the directory of `cadmus train --snapshots`"
        raise InputError(f"{directory}: no snapshots{fix}")
    return found
