"""Tests of labs, which leave with their lab; a module ``samples`` of one adds to the tests of the core."""

from importlib import import_module
from pathlib import Path
from typing import Any


def samples(name: str) -> dict[str, Any]:
    """Return what the samples of all labs have under a name."""
    found: dict[str, Any] = {}
    for path in sorted(Path(__file__).parent.glob("*/samples.py")):
        found |= getattr(import_module(f"tests.labs.{path.parent.name}.samples"), name, {})
    return found
