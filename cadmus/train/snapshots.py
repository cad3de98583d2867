"""Exports that a training leaves on its way, by which accuracy is followed over its compute."""

import shutil
from pathlib import Path

from cadmus import config
from cadmus.common.files import as_input_error
from cadmus.errors import InputError

FIRST_SHARE = 0.01
"""Share of the steps after which the first one is left."""


def snapshot_steps(train: config.Train) -> set[int]:
    """Steps after which a snapshot is left, the last step among them, evenly spaced in the logarithm.

    There are fewer than ``train.snapshots`` where several would fall on one step.
    """
    shares = [FIRST_SHARE ** (1 - (k + 1) / train.snapshots) for k in range(train.snapshots)]
    return {max(1, round(share * train.steps)) for share in shares}


def snapshot_path(directory: Path, step: int) -> Path:
    """Where the snapshot of a step lies."""
    return directory / f"step-{step:08d}"


def forget_after(directory: Path, step: int) -> None:
    """Remove the snapshots of later steps, which another run, or one that was killed, has left.

    Raises:
        InputError: they cannot be removed.
    """
    with as_input_error(directory):
        for path in directory.glob("step-*"):
            if path > snapshot_path(directory, step):
                shutil.rmtree(path)


def find_snapshots(directory: Path) -> list[Path]:
    """All snapshots, the earliest first.

    Raises:
        InputError: there are none.
    """
    found = sorted(directory.glob("step-*"))
    if not found:
        raise InputError(
            f"{directory}: no snapshots of a training; give what `cadmus train --snapshots` wrote"
        )
    return found
