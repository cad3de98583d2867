"""Helpers for the benchmarks."""

import json

from click.testing import CliRunner

from cadmus.cli.bench import bench
from tests.checkout import ROOT


def invoke(*arguments: str) -> str:
    return CliRunner().invoke(bench, arguments, catch_exceptions=False).stdout


def published(name: str) -> set[str]:
    """Return the keys of a published result."""
    return set(json.loads((ROOT / f"docs/results/bench_{name}.json").read_text()))
