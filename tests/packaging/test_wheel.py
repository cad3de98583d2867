"""The wheel, built from the source distribution and used from an empty directory with one extra at a time."""

import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Callable
from email import message_from_bytes
from email.message import Message
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from cadmus.cli.main import COMMANDS as ENTRIES
from cadmus.distribution import NAME, VERSION
from tests.checkout import ROOT

LEFT_OUT = (".git", ".venv", ".snakemake", ".*_cache", "__pycache__", "results", "build", "dist", "site")
COMMANDS = {
    "": {
        "--version": f"{NAME} {VERSION}",
        "isa": "ends the program",
        "run 34+7=": "1\ntrue",
        "run -": "true\nfalse",
    },
    "sample": {
        "sample equality -n 2": "=",
        "config show quick": "name: quick",
        "plan quick": "2 CPU cores",
    },
    "model": {"complete 12+3=": "result"},
    "figures": {"figure table2_instructions --output .": "table2_instructions.md"},
}
"""Commands by extra, with a part of what they print."""
MODULES = {
    "train": ("train.ranks", "train.loop", "train.engine"),
    "model": ("experiments.experiment", "evaluate.statistics.results", "pages.model", "explore.site"),
    "figures": ("study.comparison", "study.page", "study.results"),
}
"""Modules by extra, of commands that take too long for this test."""
ARGUMENTS = {
    "card": "laptop --completions completions.parquet",
    "complete": "12+3=",
    "score": "features.safetensors --output scores.parquet",
    "config": "show quick",
    "figure": "table2_instructions --output .",
    "manifest": "dataset",
    "plan": "quick",
    "sample": "equality",
    "study": "runs quick",
    "shard": "shard.parquet --template equality --split train --number 0",
}
"""Arguments with which a command gets as far as its imports."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """The wheel of the checkout's source distribution."""
    folder = tmp_path_factory.mktemp("build")
    shutil.copytree(ROOT, folder / "cadmus", ignore=shutil.ignore_patterns(*LEFT_OUT))
    backend = "from setuptools import build_meta; build_meta.build_sdist('..')"
    subprocess.run([sys.executable, "-c", backend], cwd=folder / "cadmus", check=True, capture_output=True)
    (source,) = folder.glob("*.tar.gz")
    options = ["--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, source], check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def metadata(wheel) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return message_from_bytes(archive.read(name))


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory) -> Path:
    """The Python of an environment with the wheel alone."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    installed = folder / "bin/python"
    pip = [sys.executable, "-m", "pip", "--python", installed]
    subprocess.run([*pip, "install", "--no-deps", "--no-index", wheel], check=True, capture_output=True)
    # The compiled VM is valid for the same sources wherever they are.
    (cache,) = folder.glob("lib/python*/site-packages/cadmus/vm")
    for path in (ROOT / "cadmus/vm").glob("__pycache__/*.nb?"):
        (cache / "__pycache__").mkdir(exist_ok=True)
        shutil.copy(path, cache / "__pycache__")
    return installed


@pytest.fixture
def execute(python, metadata, tmp_path) -> Callable[..., subprocess.CompletedProcess]:
    """Run the installed Python with the packages of an extra, in an empty directory."""

    def execute(extra: str, *arguments: str) -> subprocess.CompletedProcess:
        packages = tmp_path / "packages"
        link_packages(metadata.get_all("Requires-Dist"), extra, packages)
        (tmp_path / "empty").mkdir()
        return subprocess.run(
            [python, *arguments],
            cwd=tmp_path / "empty",
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(packages)},
            input="34+7=.\n34+8=.\n",
            capture_output=True,
            text=True,
        )

    return execute


def link_packages(requirements: list[str], extra: str, folder: Path) -> None:
    """Link the packages that the wheel with an extra requires, from those of this Python."""
    folder.mkdir()
    pending = [(line, extra) for line in requirements]
    seen = set()
    while pending:
        line, of = pending.pop()
        required = Requirement(line)
        if (line, of) in seen or (required.marker and not required.marker.evaluate({"extra": of})):
            continue
        seen.add((line, of))
        lines = requirements
        if required.name != NAME:
            found = distribution(required.name)
            lines = found.requires or []
            for name in {path.parts[0] for path in found.files or []} - {"..", "__pycache__"}:
                if not (folder / name).exists():
                    (folder / name).symlink_to(str(found.locate_file(name)))
        pending += [(line, inner) for line in lines for inner in required.extras or {""}]


@pytest.mark.parametrize(
    ("extra", "command"), [(extra, command) for extra, of in COMMANDS.items() for command in of]
)
def test_commands_run_from_an_empty_directory(execute, extra, command) -> None:
    done = execute(extra, "-m", "cadmus", *command.split())
    assert (done.returncode, COMMANDS[extra][command] in done.stdout) == (0, True), done.stdout + done.stderr


@pytest.mark.parametrize("extra", MODULES)
def test_an_extra_has_the_packages_of_its_commands(execute, extra) -> None:
    modules = ", ".join(f"cadmus.{module}" for module in MODULES[extra])
    done = execute(extra, "-W", "ignore", "-c", f"import {modules}")
    assert done.returncode == 0, done.stderr


def test_a_missing_package_is_one_line_with_the_extra(execute) -> None:
    commands = [name for name, (_, extra, _) in ENTRIES.items() if extra]
    code = f"""
import sys
from cadmus.cli.main import main
for command in {commands}:
    sys.argv = ["cadmus", command, *{ARGUMENTS}.get(command, "").split()]
    try:
        main()
    except SystemExit as exit:
        assert exit.code == 2, command
"""
    lines = execute("", "-c", code).stderr.splitlines()
    for line, command in zip(lines, commands, strict=True):
        assert re.fullmatch(rf"cadmus: error: cadmus {command} needs \w+, which is not installed; .*", line)
        assert line.endswith(f"pip install '{NAME}[{ENTRIES[command][1]}]'")


def test_a_name_without_its_package_is_an_import_error(execute) -> None:
    done = execute("", "-c", "import cadmus; cadmus.run('34+7='); from cadmus import sample")
    last = done.stderr.splitlines()[-1]
    assert re.fullmatch(r".*MissingExtraError: cadmus\.sample needs \w+, which is not installed; .*", last)
    assert last.endswith(f"pip install '{NAME}[sample]'")


def test_the_base_install_is_small(wheel, metadata) -> None:
    needed = [Requirement(line) for line in metadata.get_all("Requires-Dist") if "extra ==" not in line]
    assert [required.name for required in needed] == ["click"]
    with zipfile.ZipFile(wheel) as archive:
        # With its bytecode and click, it has to stay below 20 MB.
        assert sum(file.file_size for file in archive.infolist()) < 12_000_000


def test_the_index_page_has_no_relative_links(metadata) -> None:
    text = metadata.get_payload()
    assert "# Cadmus" in text
    assert "](" in text
    assert not [link for link in text.split("](")[1:] if not link.startswith(("http", "#"))]
