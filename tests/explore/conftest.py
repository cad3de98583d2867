"""Fixture: the shipped model."""

import pytest

from cadmus import Cadmus


@pytest.fixture(scope="module")
def model():
    return Cadmus.load()
