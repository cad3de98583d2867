"""Path of the model that comes with the checkout; does not import torch."""

from pathlib import Path

from cadmus.errors import InputError

DEFAULT_MODEL = Path(__file__).parents[2] / "models" / "laptop"


def named_or_default(directory: Path | None) -> Path:
    """Return ``directory``, or by default that of the model that comes with the checkout.

    Raises:
        InputError: ``directory`` is None and the checkout has no model.
    """
    if directory is None and not DEFAULT_MODEL.is_dir():
        raise InputError(
            f"there is no model in {DEFAULT_MODEL}; name an export with --model DIR, or train one: "
            "`make run` gives results/quick/model"
        )
    return directory or DEFAULT_MODEL
