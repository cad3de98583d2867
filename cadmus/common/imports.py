"""Imports of packages that only some commands need."""

from collections.abc import Iterator
from contextlib import contextmanager

from cadmus.errors import InputError


@contextmanager
def needed_by(feature: str) -> Iterator[None]:
    """Report in one line that an import inside the block fails because a package is not installed.

    Raises:
        InputError: names the feature, the package and the command that installs it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        if package == "cadmus":
            raise
        raise InputError(f"{feature} needs the package {package}; run `pip install {package}`") from None
