"""The installed distribution: its name, version, data files and extras."""

from pathlib import Path

from cadmus.errors import InputError

NAME = "cadmus-synthesis"
"""Name on the package index, where ``cadmus`` belongs to another project."""
VERSION = "0.1.0"

_PACKAGED = Path(__file__).with_name("data")
CHECKOUT = None if _PACKAGED.is_dir() else Path(__file__).parents[1]
"""Root of the checkout that the package is imported from; None for an installed wheel."""
DATA = CHECKOUT or _PACKAGED
"""Directory of config/, models/ and workflow/; ``setup.py`` copies their files into a wheel."""


class MissingExtraError(InputError, ImportError):
    """A package of an extra is not installed."""


def missing_extra(error: ModuleNotFoundError, feature: str, extra: str) -> ImportError:
    """Return the error of a feature whose import failed, with the command that installs its extra."""
    package = str(error.name).partition(".")[0]
    if package == "cadmus":
        # A missing module of Cadmus itself is a defect.
        return error
    install = f"pip install '{CHECKOUT or NAME}[{extra}]'"
    return MissingExtraError(f"{feature} needs {package}, which is not installed; {install}")
