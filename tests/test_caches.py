"""Caches where neither the home nor the code can be written, for a user that the machine does not know."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from cadmus import caches
from tests.checkout import copy_checkout

AS_NOBODY = ["unshare", "--user", "--map-user=54321", "--map-group=54321"]
"""In a namespace in which the files of this user belong to an unknown one without capabilities."""


def test_a_writable_home_is_enough(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in caches.CACHES:
        monkeypatch.delenv(name, raising=False)
    caches.provide()
    assert caches.CACHES.keys().isdisjoint(os.environ)


def test_without_a_home_caches_are_private(tmp_path, monkeypatch):
    monkeypatch.setattr(caches.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("HOME", "/proc/nohome")
    for name in caches.CACHES:
        # Otherwise it would stay set after the test.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CACHE_HOME", "/chosen")
    caches.provide()
    assert os.environ["XDG_CACHE_HOME"] == "/chosen"
    folder = tmp_path / f"cadmus-{os.getuid()}"
    assert os.environ["MPLCONFIGDIR"] == str(folder / "matplotlib")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    # A folder that others can write may have code of theirs.
    folder.chmod(0o777)
    monkeypatch.delenv("MPLCONFIGDIR")
    caches.provide()
    assert Path(os.environ["MPLCONFIGDIR"]).parent != folder


@pytest.mark.skipif(
    shutil.which("unshare") is None
    or subprocess.run([*AS_NOBODY, "true"], capture_output=True).returncode != 0,
    reason="needs user namespaces",
)
def test_read_only_code_works_without_a_home_and_for_an_unknown_user(tmp_path):
    code = copy_checkout(tmp_path / "code")
    for cache in code.rglob("__pycache__"):
        shutil.rmtree(cache)
    subprocess.run(["chmod", "--recursive", "a-w", code], check=True)
    here = tmp_path / "here"
    here.mkdir()
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": "/proc/nohome",
        "PYTHONPATH": str(code),
        "TMPDIR": str(here),
    }

    def cadmus(*arguments):
        command = [*AS_NOBODY, sys.executable, "-m", "cadmus", *arguments]
        done = subprocess.run(command, cwd=here, env=environment, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    assert len(cadmus("sample", "equality", "-n", "2").split()) == 2
    assert "table2.md" in cadmus("figure", "table2_instructions", "--output", "table2.md")
    subprocess.run(["chmod", "--recursive", "u+w", code], check=True)
