"""Copies of the checkout in which tests run the workflow."""

import os
import shutil
from pathlib import Path

ROOT = Path(__file__).parent.parent


def copy_checkout(directory: Path) -> Path:
    """Copy the files of the workflow to ``directory`` and return it.

    Compiled files are copied as well: to compile the VM again takes 20 seconds.
    """
    # Another process may be writing one, under a temporary name.
    unfinished = shutil.ignore_patterns("*.pyc.*", "*.nb?.*")
    for folder in ("cadmus", "config", "tests", "workflow"):
        shutil.copytree(ROOT / folder, directory / folder, ignore=unfinished)
    return directory


def environment_of(directory: Path) -> dict[str, str]:
    """Return environment variables to run the code in ``directory``, without the user's OpenAI key."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
    return {**kept, "PYTHONPATH": str(directory)}
