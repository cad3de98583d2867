"""A small dataset, and a copy of it to damage."""

import shutil
from pathlib import Path

import pytest

from cadmus.config import load_config
from cadmus.dataset.manifest import write_manifest
from cadmus.dataset.shards import list_shards, write_shard

CONFIG = load_config(Path(__file__).parents[1] / "tiny.yaml")


def write_all(directory, shards):
    for shard in shards:
        write_shard(CONFIG, directory, shard.template, shard.split, shard.number)


@pytest.fixture(scope="session")
def dataset(tmp_path_factory):
    directory = tmp_path_factory.mktemp("dataset")
    write_all(directory, list_shards(CONFIG))
    write_manifest(CONFIG, directory)
    return directory


@pytest.fixture
def copy(dataset, tmp_path):
    """A dataset to damage."""
    return shutil.copytree(dataset, tmp_path, dirs_exist_ok=True)
