"""Datasets that the tests of the pages share."""

import pytest

from cadmus import pipeline
from cadmus.config import load_config, parse_config
from tests.checkout import ROOT

VALUES = {
    "name": "rules",
    "dataset": {
        "validation": 0,
        "test": 20,
        "shard_size": 60,
        "ood": {"small": {"values": [[-20, -15]]}, "maximum": {"contains": ["x|", "x"]}},
        "ood_programs": 25,
        "templates": {"equality": {"train": 100}, "basic_sequences": {"train": 50}},
    },
    "model": {"layers": 1, "width": 8, "heads": 2, "mlp": 16},
    "train": {"steps": 1},
}


def write(config, directory):
    pipeline.sample(config, directory)
    pipeline.dataset(config, directory)
    return directory


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    return write(load_config(ROOT / "tests/tiny.yaml"), tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="session")
def ruled(tmp_path_factory):
    return write(parse_config(VALUES, "x.yaml"), tmp_path_factory.mktemp("ruled"))
