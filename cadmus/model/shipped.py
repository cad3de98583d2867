"""Path of the shipped model; does not import torch."""

from pathlib import Path

from cadmus.distribution import DATA
from cadmus.errors import InputError

DEFAULT_MODEL = DATA / "models" / "laptop"


def named_or_default(directory: Path | None) -> Path:
    """Return ``directory``, or the path of the shipped model if it is None.

    Raises:
        InputError: ``directory`` is None and the shipped model is missing.
    """
    if directory is None and not DEFAULT_MODEL.is_dir():
        raise InputError(
            f"{DEFAULT_MODEL}: no model; pass one with --model DIR, or train one with `make run`, "
            "which writes results/quick/model"
        )
    return directory or DEFAULT_MODEL
