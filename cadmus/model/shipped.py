"""Where the model lies that comes with a checkout; apart, so that asking does not import torch."""

from pathlib import Path

from cadmus.errors import InputError

DEFAULT_MODEL = Path(__file__).parents[2] / "models" / "laptop"
"""The model that comes with a checkout."""


def named_or_default(directory: Path | None) -> Path:
    """The directory of the model that is named, or of the one that comes with the checkout.

    Raises:
        InputError: none is named, and the checkout has none.
    """
    if directory is None and not DEFAULT_MODEL.is_dir():
        raise InputError(
            f"there is no model in {DEFAULT_MODEL}; name an export with --model DIR, or train one: "
            "`make run` gives results/quick/model"
        )
    return directory or DEFAULT_MODEL
