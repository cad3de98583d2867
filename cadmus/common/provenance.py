"""Provenance of a result: the commit of Cadmus and the versions of packages."""

import subprocess
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version

from cadmus.distribution import CHECKOUT, NAME, VERSION

PACKAGES = ("torch", "deepspeed", "numpy")
"""Packages that results depend on."""


def commit() -> str:
    """Return the Git commit of the checkout, ending in ``-dirty`` if changed, else the version of Cadmus."""
    if CHECKOUT is None:
        return VERSION
    try:
        # The package may have been copied into another project.
        _git("grep", "--quiet", f'^name = "{NAME}"', "HEAD", "--", "pyproject.toml")
        return _git("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")
    except (OSError, subprocess.CalledProcessError):
        return VERSION


def _git(*arguments: str) -> str:
    # With both paths given, Git neither searches the parent directories nor obeys the GIT_DIR of a hook.
    place = [f"--git-dir={CHECKOUT}/.git", f"--work-tree={CHECKOUT}"]
    done = subprocess.run(
        ["git", *place, *arguments], cwd=CHECKOUT, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def versions() -> dict[str, str]:
    """Return the versions of ``PACKAGES``, without those that are not installed."""
    found = {}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found
