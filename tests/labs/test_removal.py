"""Without a lab's folders, and the shipped configs that name it, the rest is whole."""

import re
import shutil

import pytest

from cadmus import plugins
from tests.checkout import ROOT, check_types, copy_whole, python_in

TESTS = (
    *("tests/config", "tests/figures/test_figures.py", "tests/train/test_batches.py"),
    *("tests/train/test_objectives.py", "tests/study/test_study.py"),
)
REMOVE = """
from pathlib import Path
from cadmus.config import load_config
from cadmus.config.study import is_study, load_study
from cadmus.errors import InputError
for path in [*Path("config").glob("*.yaml"), *Path("docs/findings").glob("**/study.yaml")]:
    try:
        (load_study if is_study(path) else load_config)(path)
    except InputError as error:
        print(error)
        path.unlink()
"""
"""Removes the configs that are not valid, and prints why."""
NAMED = r"no such key; |no comparable experiment '|full needs an objective of a lab"
"""A config that names a lab is one line."""
LAYERS = "from importlinter.cli import lint_imports_command as lint; lint()"
PLANS = "docs/index.md"
"""Generated: the plans of the shipped configs, which do not depend on a lab."""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    return copy_whole(tmp_path_factory.mktemp("removal") / "cadmus")


@pytest.fixture
def without(checkout, tmp_path):
    """Return the checkout without labs that are put back after the test."""
    removed, configs = [], tmp_path / "configs"
    for folder in ("config", "docs/findings"):
        shutil.copytree(checkout / folder, configs / folder)

    def remove(*labs):
        for lab in labs:
            for folder in (checkout / "cadmus/labs" / lab, checkout / "tests/labs" / lab):
                removed.append((shutil.move(folder, tmp_path / f"{len(removed)}"), folder))
        said = python_in(checkout, "-c", REMOVE).splitlines()
        assert [line for line in said if not re.search(NAMED, line)] == []
        python_in(checkout, "-c", LAYERS)
        # It imports every experiment and figure that is left.
        python_in(checkout, "-m", "dev.docs", "config")
        assert (checkout / PLANS).read_bytes() == (ROOT / PLANS).read_bytes()
        return checkout

    yield remove
    for place, folder in removed:
        shutil.move(place, folder)
    shutil.copytree(configs, checkout, dirs_exist_ok=True)


@pytest.mark.parametrize("lab", plugins.NAMES)
def test_the_rest_is_whole_without_a_lab(without, lab):
    without(lab)


def test_the_core_is_whole_without_any_lab(without):
    copy = without(*plugins.NAMES)
    python_in(copy, "-m", "ruff", "check", "cadmus", "dev", "tests")
    check_types(copy)
    # Each figure of the core is drawn by the core's own tests.
    python_in(copy, "-m", "pytest", "-q", "-x", "--numprocesses=0", "-k", "not reproducible", *TESTS)
