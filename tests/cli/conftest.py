"""Fixtures for the command line."""

import pytest

from tests.cli.exports import small_export


@pytest.fixture(scope="session")
def export(tmp_path_factory):
    return small_export(tmp_path_factory.mktemp("exports") / "model")
