"""The installation: uv where it works, else pip, with the settings of pip."""

import subprocess
import sys

import pytest

from dev import install

LISTED = """:env:.find-links='/wheels /more'
global.extra-index-url='file:///a/simple file:///b/simple'
global.find-links='/old'
global.timeout='180'
"""


def test_uv_gets_the_settings_of_pip(monkeypatch):
    monkeypatch.setenv("UV_INDEX_STRATEGY", "first-index")
    variables = install.uv_variables(LISTED)
    assert variables["UV_FIND_LINKS"] == "/wheels,/more"
    assert variables["UV_INDEX"] == "file:///a/simple file:///b/simple"
    # Variables of the user stay.
    assert variables["UV_INDEX_STRATEGY"] == "first-index"
    assert "PATH" in variables


class Commands:
    """Stands in for the commands; those that contain one of the ``failing`` words fail."""

    def __init__(self, *failing: str) -> None:
        self.failing, self.done = failing, []

    def run(self, command, check=False, **options):
        self.done.append(" ".join(command).replace(sys.executable, "python"))
        code = int(any(word in self.done[-1] for word in self.failing))
        if check and code:
            raise subprocess.CalledProcessError(code, command)
        return subprocess.CompletedProcess(command, code, LISTED, "")


@pytest.mark.parametrize(
    ("uv", "failing", "expected"),
    [
        ("/bin/uv", (), ["urlopen", "config list", "uv pip install --torch-backend cpu", "uv --editable"]),
        ("/bin/uv", ("urlopen",), ["urlopen", "config list", "uv --requirement", "uv --editable"]),
        # uv fails, or there is none.
        ("/bin/uv", ("uv pip",), ["urlopen", "config list", "uv", "pip --requirement", "pip --editable"]),
        (
            None,
            ("constraint",),
            ["urlopen", "pip install --constraint", "pip --requirement", "pip --editable"],
        ),
    ],
)
def test_pip_does_what_uv_cannot(monkeypatch, uv, failing, expected):
    commands = Commands(*failing)
    monkeypatch.setattr(install.subprocess, "run", commands.run)
    found = {"uv": uv}
    monkeypatch.setattr(install.shutil, "which", lambda name, path=None: found.get(name))
    install.main()
    assert len(commands.done) == len(expected)
    for command, words in zip(commands.done, expected, strict=True):
        assert all(word in command for word in words.split()), command


def test_nothing_waits_for_an_index_that_does_not_answer(monkeypatch):
    def late(command, timeout=None, **options):
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(install.subprocess, "run", late)
    monkeypatch.setattr(install.shutil, "which", lambda name, path=None: None)
    assert not install.wants_cpu_builds()
    assert install.PATIENCE <= 5
