"""A small dataset, and a copy of it to damage."""

import shutil
from pathlib import Path

import pytest

from cadmus import pipeline
from cadmus.config import load_config

CONFIG = load_config(Path(__file__).parents[1] / "tiny.yaml")


@pytest.fixture(scope="session")
def dataset(tmp_path_factory):
    directory = tmp_path_factory.mktemp("dataset")
    pipeline.sample(CONFIG, directory)
    pipeline.dataset(CONFIG, directory)
    return directory


@pytest.fixture
def copy(dataset, tmp_path):
    """A dataset to damage."""
    return shutil.copytree(dataset, tmp_path, dirs_exist_ok=True)
