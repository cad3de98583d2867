"""The commit that results name."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cadmus.distribution import VERSION
from tests.checkout import ROOT

COMMIT = "from cadmus.common.provenance import commit; print(commit())"
GIT = ("git", "-c", "user.name=test", "-c", "user.email=test@localhost")


def commit_of(place: Path, **variables: str) -> str:
    """Return the commit that the package in ``place`` reports."""
    done = subprocess.run(
        [sys.executable, "-c", COMMIT],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(place), **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def commit_all(place: Path) -> str:
    """Make a Git repository of a directory and return its commit."""
    for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "all"]):
        subprocess.run([*GIT, *command], cwd=place, check=True)
    done = subprocess.run([*GIT, "rev-parse", "HEAD"], cwd=place, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def package(tmp_path) -> Path:
    """A directory with the package alone."""
    place = tmp_path / "project/place"
    shutil.copytree(ROOT / "cadmus", place / "cadmus", ignore=shutil.ignore_patterns("__pycache__"))
    return place


def test_a_checkout_reports_its_commit(package) -> None:
    shutil.copy(ROOT / "pyproject.toml", package)
    made = commit_all(package)
    assert commit_of(package) == made
    (package / "cadmus/py.typed").write_text("changed")
    assert commit_of(package) == f"{made}-dirty"


def test_the_repository_of_another_project_is_ignored(package) -> None:
    commit_all(package.parent)
    assert commit_of(package) == VERSION
    assert commit_of(package, GIT_DIR=str(package.parent / ".git")) == VERSION
    # Copied into the root of the other project.
    (package / "pyproject.toml").write_text('[project]\nname = "theirs"\n')
    commit_all(package)
    assert commit_of(package) == VERSION


def test_an_installed_package_reports_its_version(package) -> None:
    shutil.copy(ROOT / "pyproject.toml", package)
    (package / "cadmus/data").mkdir()
    commit_all(package)
    assert commit_of(package) == VERSION
