"""Tests of labs, which leave with their lab; the module ``samples`` of each adds to the tests of the core."""

from importlib import import_module
from typing import Any

from cadmus import plugins


def samples(name: str) -> dict[str, Any]:
    """Return what the samples of all labs have under a name."""
    found: dict[str, Any] = {}
    for lab in plugins.NAMES:
        found |= getattr(import_module(f"tests.labs.{lab}.samples"), name, {})
    return found
