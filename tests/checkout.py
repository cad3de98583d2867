"""Copies of the checkout in which tests run the workflow."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from dev.measure import PATIENCE
from tests import forked

ROOT = Path(__file__).parent.parent
FEW = """\
dataset:
  validation: 40
  test: 60
  templates: {equality: {train: 800}}
model: {layers: 2, width: 32, heads: 2, mlp: 64}
"""
"""Sections of a small config. Without ``extends``, Snakemake has all values; one template has few shards."""
TIMED = {"benchmarks", "logs"}
"""Directories of a run whose files hold times; only their names are compared."""
CLOCKS = re.compile(
    rb'"(seconds|tokens_per_second|matmul_rate)": [\d.e+-]+|"(commit|seal)": "\w*"'
    rb"|[\d.,e+-]+ (s on|tokens/s|FLOP/s)|(?<=made by cadmus card: )\w+"
)
"""Parts of JSON files and cards that depend on the moment and speed of a run; seal and digest of the card
change with them."""


def copy_folder(name: str, directory: Path) -> None:
    """Copy a folder of the checkout to ``directory``, with its compiled files.

    To compile the VM again takes 20 seconds.
    """
    # Another process may be writing a compiled file, under a temporary name.
    unfinished = shutil.ignore_patterns("*.pyc.*", "*.nb?.*")
    shutil.copytree(ROOT / name, directory / name, ignore=unfinished)


def copy_checkout(directory: Path) -> Path:
    """Copy the files of the workflow to ``directory`` and return it."""
    for folder in ("cadmus", "config", "tests", "workflow"):
        copy_folder(folder, directory)
    (directory / "sitecustomize.py").write_text("from tests import forked\n\nforked.hand_over()\n")
    return directory


def copy_whole(directory: Path) -> Path:
    """Copy all that the checks of a checkout read to ``directory`` and return it."""
    for name in ("cadmus", "config", "dev", "docs", "integrations", "models", "tests", "workflow", ".github"):
        copy_folder(name, directory)
    for name in ("pyproject.toml", "README.md", "CHANGELOG.md", "CITATION.cff", "Makefile", "setup.py"):
        shutil.copy(ROOT / name, directory)
    for name in ("requirements.txt", ".gitignore"):
        shutil.copy(ROOT / name, directory)
    return directory


def check_types(directory: Path) -> None:
    """Check the types of the code in ``directory``: of the modules that differ from those of the checkout."""
    python_in(directory, "-m", "mypy", "--cache-dir", str(ROOT / ".mypy_cache"))


def python_in(directory: Path, *command: str) -> str:
    """Run Python with the code in ``directory``, without an error; return what it printed."""
    environment = environment_of(directory)
    done = subprocess.run(
        [sys.executable, *command], cwd=directory, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def environment_of(directory: Path) -> dict[str, str]:
    """Return variables to run the code in ``directory`` in new processes, without the user's OpenAI key."""
    left_out = ("OPENAI_", forked.ADDRESS)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    return {**kept, "PYTHONPATH": str(directory)}


def snakemake(
    directory: Path, *arguments: str, config: str = "tests/tiny.yaml", code: int = 0, **variables: str
) -> str:
    """Run the workflow in a copy of the checkout to an exit code, in forks; return what it printed."""
    command = [sys.executable, "-m", "snakemake", "--cores", "2", "--configfile", config, *arguments]
    address = {forked.ADDRESS: os.environ[forked.ADDRESS]}
    environment = environment_of(directory) | address | variables
    done = subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, timeout=2 * PATIENCE
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def jobs(directory: Path, *arguments: str, config: str = "tests/tiny.yaml") -> dict[str, int]:
    """Return the number of jobs by rule of a dry run."""
    printed = snakemake(directory, "--dry-run", *arguments, config=config)
    counted = dict(re.findall(r"^(\w+) +(\d+)$", printed, re.MULTILINE))
    return {rule: int(number) for rule, number in counted.items() if rule not in {"total", "all"}}


def difference(one: Path, other: Path) -> tuple[int, list[str]]:
    """Return the number of files of the first run, and those in which the two differ, clocks aside."""
    first, second = _timeless(one), _timeless(other)
    return len(first), sorted({name for name, _ in first.items() ^ second.items()})


def _timeless(directory: Path) -> dict[str, bytes]:
    """Return the files below a directory and their contents, without :data:`CLOCKS`."""
    contents = {}
    for path in directory.rglob("*"):
        if not path.is_dir():
            name = path.relative_to(directory)
            data = path.read_bytes() if TIMED.isdisjoint(name.parts) else b""
            has_clocks = path.suffix in (".json", ".jsonl") or path.name == "README.md"
            contents[str(name)] = CLOCKS.sub(b"", data) if has_clocks else data
    return contents
