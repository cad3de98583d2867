"""Pack what the rented machine needs besides the repository: wheels that it lacks, and the commit."""

import importlib.metadata
import shutil
import subprocess
import sys
from pathlib import Path

from cadmus.store import commit
from dev.gpu_session.session import COMMIT, PACKED, WHEELS, Stop
from dev.measure import ROOT

LACKING = (
    "annotated-types",
    "click",
    "hjson",
    "pydantic",
    "pydantic-core",
    "typing-extensions",
    "typing-inspection",
)
"""Packages that the machine lacks, or may have in a version that is too old. A training needs no Polars."""
PLATFORM = (
    "--only-binary=:all:",
    "--python-version=3.12",
    "--implementation=cp",
    "--abi=cp312",
    "--abi=none",
)
SYSTEMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64", "any")
MOST_MIB = 60.0
"""Of all that travels: the limit of the machine is 64."""
COMMAND = "python3 -m dev.gpu_session run"


def pack() -> int:
    """Make ``.gpu/`` anew; print what travels and the command to run there."""
    state = commit()
    if state.endswith("-dirty"):
        raise Stop("the checkout has changes; commit them first, so that the results have a commit")
    shutil.rmtree(PACKED, ignore_errors=True)
    WHEELS.mkdir(parents=True)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    pinned = [f"{name}=={importlib.metadata.version(name)}" for name in LACKING]
    systems = [f"--platform={system}" for system in SYSTEMS]
    _run([*pip, "download", "--no-deps", *PLATFORM, *systems, "--dest", str(WHEELS), *pinned])
    # The index has only its source.
    deepspeed = f"deepspeed=={importlib.metadata.version('deepspeed')}"
    _run([*pip, "wheel", "--no-deps", "--wheel-dir", str(WHEELS), deepspeed])
    COMMIT.write_text(state + "\n")
    sizes = {"tracked files": _tracked(), PACKED.name: _size(PACKED)}
    for name, size in sizes.items():
        print(f"{name}: {size / 2**20:.1f} MiB")
    total = sum(sizes.values()) / 2**20
    print(f"travels: {total:.1f} MiB of {MOST_MIB:.0f}")
    if total > MOST_MIB:
        raise Stop(f"{total:.1f} MiB are too much to travel, at most {MOST_MIB:.0f}")
    print(
        f"\nRun there, in the copy of this checkout with {PACKED.name}/, within ten minutes:\n\n    {COMMAND}"
    )
    return 0


def _run(command: list[str]) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise Stop(f"{' '.join(command[2:5])}: {lines[-1] if lines else done.returncode}")


def _tracked() -> int:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return sum((ROOT / name).lstat().st_size for name in listed.stdout.split("\0") if name)


def _size(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
