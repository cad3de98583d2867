"""The files around the package: the extras in the documentation, the Dockerfile, the release."""

import os
import re
import shutil
import subprocess
import tomllib

import pytest
import yaml

from cadmus.cli.main import COMMANDS
from cadmus.distribution import NAME, VERSION
from tests.checkout import ROOT

LARGEST_CLONE, LARGEST_MODELS = 12 << 20, 41 << 20
"""Bytes of the tracked files but weights, and of these."""
LARGEST_FILE = 512 << 10
"""Bytes of a tracked file other than weights."""
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_documentation_lists_the_extra_of_every_command() -> None:
    page = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| .* \|(.*)\|$", page, re.MULTILINE)
    assert [extra for extra, _ in rows] == list(PROJECT["optional-dependencies"])
    listed = {command: extra for extra, commands in rows for command in re.findall(r"`(\w+)`", commands)}
    assert listed == {name: extra for name, (_, extra, _) in COMMANDS.items() if extra}
    assert {name for name, (_, extra, _) in COMMANDS.items() if not extra} == {"isa", "run"}


def test_names_and_versions_agree() -> None:
    assert PROJECT["name"] == NAME
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["version"] == VERSION


def test_ci_and_metadata_name_the_same_pythons() -> None:
    ci = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
    tested = ci["jobs"]["test"]["strategy"]["matrix"]["python"]
    named = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if ":: 3." in line]
    assert tested == named
    assert PROJECT["requires-python"] == f">={named[0]}"


def test_the_docker_image_runs_a_make_target_and_ignores_what_git_ignores() -> None:
    steps = re.findall(
        r"^(FROM|RUN|CMD) (.*)$",
        (ROOT / "workflow/envs/Dockerfile").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    targets = re.findall(r"^([\w./-]+):(?!=)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert steps[0] == ("FROM", f"python:{PROJECT['requires-python'].removeprefix('>=')}-slim")
    assert steps[-1] == ("CMD", '["make", "run"]')
    assert ("RUN", "make .venv/installed") in steps
    assert {".venv/installed", "run"} <= set(targets)
    ignored, left_out = (
        {
            line.removeprefix("**/").strip("/")
            for line in (ROOT / name).read_text(encoding="utf-8").splitlines()
        }
        for name in (".gitignore", "workflow/envs/Dockerfile.dockerignore")
    )
    assert ignored <= left_out


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="needs a clone")
def test_a_clone_is_small() -> None:
    """Figures that are not written by `style.save` or data that belong into Parquet make it grow."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    sizes = {name: (ROOT / name).stat().st_size for name in listed.stdout.split("\0") if name}
    weights = {name for name in sizes if name.endswith(".safetensors")}
    assert sum(sizes[name] for name in weights) <= LARGEST_MODELS
    assert sum(size for name, size in sizes.items() if name not in weights) <= LARGEST_CLONE
    assert max(size for name, size in sizes.items() if name not in weights) <= LARGEST_FILE


DRY = ("-n", "-o", ".venv/installed")


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    # `make test` tells the make inside that it is one.
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))
    }
    return subprocess.run(["make", *arguments], cwd=ROOT, env=environment, capture_output=True, text=True)


@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
def test_make_takes_a_config_by_name_and_puts_a_target_right() -> None:
    for given in ("quick", "config/quick.yaml"):
        assert "--configfile config/quick.yaml\n" in make(*DRY, "run", f"CONFIG={given}").stdout
    assert "cadmus config show qiuck >" in make(*DRY, "run", "CONFIG=qiuck").stdout
    unknown = make("tset")
    assert unknown.returncode == 2
    assert unknown.stderr.startswith("make: no target 'tset'; there are help run test ")
