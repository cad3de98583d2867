"""A session on the CPUs of this machine, from packing to tables: ``make gpu-rehearsal``.

What runs there has an environment with the versions of the rented machine and without what it lacks
(``machine.txt``), a copy of what travels, and a tiny config. PyTorch's wheel for CUDA runs on CPUs as well.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from dev.gpu_session import collecting, packing
from dev.gpu_session.session import CONTINUES, PACKED, Stop
from dev.measure import ROOT

PLACE = Path("results/gpu-rehearsal")
PYTHON = "python3.12"
REQUIREMENTS = ROOT / "dev/gpu_session/machine.txt"
UNWANTED = ("annotated-types", "pydantic", "pydantic-core", "typing-inspection")
"""Packages that others bring along, but the rented machine lacks."""
CONFIG = "tests/tiny.yaml"
OPTIONS = ["--device=cpu", "--slow=4", "--seconds=2000", "--train-seconds=50", "--command=60"]
"""On two cores, imports and compilations take several times as long; the training is short."""


def main() -> int:
    start = time.monotonic()
    try:
        _rehearse(ROOT / PLACE)
    except Stop as stop:
        print(f"gpu-rehearsal: {stop}", file=sys.stderr)
        return 2
    print(f"\nrehearsed in {(time.monotonic() - start) / 60:.1f} minutes")
    return 0


def _rehearse(place: Path) -> None:
    packing.pack()
    python = environment(place / "venv")
    there, back = place / "there", place / "back"
    for folder in (there, back, place / "home"):
        shutil.rmtree(folder, ignore_errors=True)
    # Only what travels.
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(there)], check=True)
    shutil.rmtree(there / ".git")
    shutil.copytree(PACKED, there / PACKED.name)
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [str(python), "-m", "dev.gpu_session", "run", "--config", CONFIG, *OPTIONS]
    variables |= {"OUT": str(back), "HOME": str(place / "home")}
    # As many commands as it takes, each with an empty folder to bring home.
    said = CONTINUES
    while CONTINUES in said:
        shutil.rmtree(back, ignore_errors=True)
        done = subprocess.run(command, cwd=there, env=variables, stdout=subprocess.PIPE, text=True)
        said = done.stdout
        print(said, end="", flush=True)
        if done.returncode:
            raise Stop(f"the session has failed; {back}/log.txt and output.txt say why")
    collecting.collect(back, "all")


def environment(directory: Path) -> Path:
    """Return the Python of the environment of the rented machine, which is made at the first time: 5 GB."""
    python, ready = directory / "bin/python", directory / "ready"
    if ready.exists() and ready.read_text() == REQUIREMENTS.read_text():
        return python
    if not shutil.which(PYTHON):
        raise Stop(f"{PYTHON}: not found; the rented machine has it")
    shutil.rmtree(directory, ignore_errors=True)
    pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    for command in (
        [PYTHON, "-m", "venv", str(directory)],
        [*pip, "install", "--no-compile", "--requirement", str(REQUIREMENTS)],
        [*pip, "uninstall", "--yes", *UNWANTED],
    ):
        if subprocess.run(command).returncode:
            raise Stop(f"{' '.join(command[:5])} has failed")
    shutil.copyfile(REQUIREMENTS, ready)
    return python


if __name__ == "__main__":
    sys.exit(main())
