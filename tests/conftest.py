"""How the tests are shared between processes (``make test``), none of which sees a GPU but ``gpu.py``."""

import os
from pathlib import Path

import pytest

FIRST = (
    "test_workflow.py",
    "train/test_loop.py",
    "train/test_state.py",
    "train/test_checkpoint.py",
    "test_gpu_check.py",
    "test_ablation.py",
    "report/test_report.py",
    "checks/test_kills.py",
    "bench/test_training.py",
    "bench/test_programs.py",
)
"""Files below tests/ that take minutes, to start first: a last one would leave the other process idle."""


def pytest_configure(config: pytest.Config) -> None:
    # There are tests of two ranks, which would need a GPU each.
    if not names_gpu_tests(config.args):
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


def names_gpu_tests(arguments: list[str]) -> bool:
    """True if pytest is asked for ``gpu.py`` or a test in it."""
    return any(argument.partition("::")[0].endswith("gpu.py") for argument in arguments)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order = {name: place for place, name in enumerate(FIRST)}
    folder = Path(__file__).parent
    items.sort(key=lambda item: order.get(item.path.relative_to(folder).as_posix(), len(FIRST)))
