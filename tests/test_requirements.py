"""Pinned requirements of `make run` and `make test`."""

import re
from importlib.metadata import metadata

from packaging.specifiers import SpecifierSet

from tests.checkout import ROOT


def test_requirements_support_python_3_11():
    names = re.findall(r"^([\w.-]+)==", (ROOT / "requirements.txt").read_text(encoding="utf-8"), re.MULTILINE)
    assert "torch" in names
    required = {name: metadata(name).get("Requires-Python") or "" for name in names}
    unsupported = {
        name: versions for name, versions in required.items() if "3.11.0" not in SpecifierSet(versions)
    }
    assert unsupported == {}
