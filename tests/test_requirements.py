"""The environment that `make run` and `make test` install."""

import re
from importlib.metadata import metadata

from packaging.specifiers import SpecifierSet

from tests.checkout import ROOT


def test_every_python_3_11_can_install_it():
    names = re.findall(r"^([\w.-]+)==", (ROOT / "requirements.txt").read_text(encoding="utf-8"), re.MULTILINE)
    assert "torch" in names
    wanted = {name: metadata(name).get("Requires-Python") or "" for name in names}
    refused = {name: versions for name, versions in wanted.items() if "3.11.0" not in SpecifierSet(versions)}
    assert refused == {}
