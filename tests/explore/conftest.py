"""Fixtures: the shipped model, and the address of its explorer."""

import pytest

from cadmus import Cadmus
from tests.commands import served


@pytest.fixture(scope="session")
def model():
    return Cadmus.load()


@pytest.fixture(scope="session")
def address():
    line = r" at (http://127\.0\.0\.1:\d+) "
    with served("explore", "--port", 0, "--no-browser", line=line) as found:
        yield found
