"""Order of the test files (``make test``), GPUs hidden from all of them but ``gpu.py``, and a browser."""

import os
from pathlib import Path

import pytest

FIRST = (
    "test_workflow.py",
    "inputs/test_inputs.py",
    "train/test_loop.py",
    "train/test_state.py",
    "train/test_checkpoint.py",
    "test_gpu_check.py",
    "test_study.py",
    "pages/test_dataset.py",
    "checks/test_kills.py",
    "bench/test_training.py",
    "bench/test_programs.py",
)
"""Slow files, relative to tests/. They start first to keep all processes busy until the end."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--mutants", type=int, default=300, help="damaged inputs of tests/inputs")
    parser.addoption("--mutant-seed", type=int, default=0, help="which damaged inputs")


def pytest_configure(config: pytest.Config) -> None:
    # Tests with two ranks would need two GPUs.
    if not names_gpu_tests(config.args):
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


@pytest.fixture
def browser() -> str:
    """Path of a browser."""
    from cadmus.bench import exploring

    found = exploring.find_browser()
    if found is None and os.environ.get("CI"):
        pytest.fail("there is no browser; `.ci/run` installs one")
    if found is None:
        pytest.skip(f"there is none of {', '.join(exploring.BROWSERS)}")
    return found


def names_gpu_tests(arguments: list[str]) -> bool:
    """Return True if the arguments of pytest include ``gpu.py`` or one of its tests."""
    return any(argument.partition("::")[0].endswith("gpu.py") for argument in arguments)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order = {name: index for index, name in enumerate(FIRST)}
    folder = Path(__file__).parent
    items.sort(key=lambda item: order.get(item.path.relative_to(folder).as_posix(), len(FIRST)))
