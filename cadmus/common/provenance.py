"""Provenance of a result: the commit and the versions of packages."""

import subprocess
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("torch", "deepspeed", "numpy")
"""Packages that results depend on."""


def commit() -> str:
    """Return the Git commit of the package, ending in ``-dirty`` if changed, or ``unknown``."""
    try:
        answer = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return answer.stdout.strip()


def versions() -> dict[str, str]:
    """Return the versions of ``PACKAGES``."""
    return {package: version(package) for package in PACKAGES}
