"""What a result was made by: the commit and the versions of the packages that decide about results."""

import subprocess
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("torch", "deepspeed", "numpy")


def commit() -> str:
    """The Git commit of the running package, with ``-dirty`` after uncommitted changes; else ``unknown``."""
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
    """The versions of ``PACKAGES``."""
    return {package: version(package) for package in PACKAGES}
