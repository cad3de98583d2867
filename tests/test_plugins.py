"""Labs that are not whole give one line."""

import subprocess
import sys

import pytest

from tests.checkout import copy_folder, environment_of

SECTION = """
from cadmus.config.fields import Fraction, Section
class Own(Section):
    part: Fraction = 0.0
TRAIN = {"%s": Own}
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    copy = tmp_path_factory.mktemp("labs") / "cadmus"
    for name in ("cadmus", "config", "models"):
        copy_folder(name, copy)
    return copy


def said(checkout, *words: str) -> str:
    """Return the one line with which a command of the checkout refuses."""
    done = subprocess.run(
        [sys.executable, "-m", "cadmus", *words],
        cwd=checkout,
        env=environment_of(checkout),
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr[-2000:]
    return done.stderr


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (
            {"broken": "import nothing_of_this_name"},
            "broken/settings.py: ModuleNotFoundError: No module named",
        ),
        ({"broken": "TRAIN = {"}, "broken/settings.py: SyntaxError: "),
        ({"first": SECTION % "own", "second": SECTION % "own"}, "TRAIN: 'own' is also one of the lab first"),
        ({"first": SECTION % "steps"}, "first/settings.py: TRAIN: 'steps' is one of the core; rename it"),
    ],
    ids=["import", "syntax", "two labs", "core"],
)
def test_a_lab_that_is_not_whole_is_one_line(checkout, texts, message) -> None:
    folders = [checkout / "cadmus/labs" / name for name in texts]
    for folder, text in zip(folders, texts.values(), strict=True):
        folder.mkdir()
        (folder / "__init__.py").touch()
        (folder / "settings.py").write_text(text)
    try:
        assert message in said(checkout, "config", "show", "quick")
    finally:
        for folder in folders:
            for path in sorted(folder.rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() else path.unlink()
            folder.rmdir()


def test_a_config_that_names_a_lab_that_is_not_there_is_one_line(checkout) -> None:
    line = said(checkout, "config", "show", "quick", "--set", "train.own.part=0.5")
    assert "train.own: no such key; " in line
    folder = checkout / "cadmus/labs/diffusion"
    folder.rename(checkout / "diffusion")
    try:
        changes = ("--set", "model.attention=full", "--set", "train.reinforcement.fraction=0")
        line = said(checkout, "plan", "quick", *changes)
        assert "model.attention: full needs an objective of a lab that is not there; set causal" in line
    finally:
        (checkout / "diffusion").rename(folder)
