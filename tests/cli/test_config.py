"""``cadmus config``."""

import json

import pytest
from click.testing import CliRunner

from cadmus.cli.main import cadmus
from cadmus.config import load_config
from cadmus.errors import InputError
from tests.config.quick import QUICK


def test_show_by_name():
    shown = CliRunner().invoke(cadmus, ["config", "show", "quick", "--json"])
    assert json.loads(shown.stdout) == load_config(QUICK).model_dump()
    with pytest.raises(InputError, match=r"no config 'quik'; did you mean 'quick'\?"):
        CliRunner().invoke(cadmus, ["config", "show", "quik"], catch_exceptions=False)
