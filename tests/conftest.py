"""Order of the test files (``make test``), no GPU for any of them, Ctrl-C, Hypothesis, and a browser."""

import os
import shutil
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import forked

FIRST = (
    "labs/test_removal.py",
    "test_workflow.py",
    "test_recipes.py",
    "train/test_state.py",
    "dev/test_gpu_session.py",
    "test_workflow_stopped.py",
    "figures/test_figures.py",
    "train/test_loop.py",
    "packaging/test_wheel.py",
    "test_workflow_elsewhere.py",
    "explore/test_page.py",
    "explore/test_site.py",
    "dev/test_notebook.py",
    "vm/test_jit.py",
    "test_study.py",
)
"""Slow files, relative to tests/. They start first to keep all processes busy until the end."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def pytest_configure(config: pytest.Config) -> None:
    # Tests with two ranks would need two GPUs. Those of GPUs are in gpu.py and gpu_ranks.py.
    if not any(Path(argument.partition("::")[0]).stem in ("gpu", "gpu_ranks") for argument in config.args):
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    # The processes of the tests share the cores: one thread each, which does not wait in a loop.
    os.environ |= {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
    # For all processes of the tests, which inherit it.
    if forked.ADDRESS not in os.environ:
        server = ExitStack()
        config.add_cleanup(server.close)
        os.environ[forked.ADDRESS] = server.enter_context(forked.server())
    # A shell starts background jobs with Ctrl-C ignored, and children would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # The first example may compile, and a busy machine is slow.
    settings.register_profile("any speed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("any speed")


@pytest.fixture(scope="session")
def browser() -> str:
    """Path of a browser."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None and os.environ.get("CI"):
        pytest.fail("no browser found; `.ci/run` installs one")
    if found is None:
        pytest.skip(f"there is none of {', '.join(BROWSERS)}")
    return found


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order = {name: index for index, name in enumerate(FIRST)}
    folder = Path(__file__).parent
    items.sort(key=lambda item: order.get(item.path.relative_to(folder).as_posix(), len(FIRST)))
