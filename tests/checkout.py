"""A copy of the checkout to run the workflow in."""

import os
import shutil
from pathlib import Path

ROOT = Path(__file__).parent.parent


def copy_checkout(directory: Path) -> Path:
    """Copy what the workflow needs to ``directory``, without compiled files, and return it."""
    for folder in ("cadmus", "config", "tests", "workflow"):
        shutil.copytree(
            ROOT / folder, directory / folder, ignore=shutil.ignore_patterns("__pycache__", "*.pyc")
        )
    return directory


def environment_of(directory: Path) -> dict[str, str]:
    """The environment in which the copy runs its own code, without a key of whoever runs the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
    return {**kept, "PYTHONPATH": str(directory)}
