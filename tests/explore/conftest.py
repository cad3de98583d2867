"""Fixtures: the shipped model and a browser."""

import os

import pytest

from cadmus import Cadmus
from cadmus.bench import exploring

BROWSER = exploring.find_browser()


@pytest.fixture(scope="module")
def model():
    return Cadmus.load()


@pytest.fixture
def browser():
    """Path of a browser."""
    if BROWSER is None and os.environ.get("CI"):
        pytest.fail("there is no browser; `.ci/run` installs one")
    if BROWSER is None:
        pytest.skip(f"there is none of {', '.join(exploring.BROWSERS)}")
    return BROWSER
