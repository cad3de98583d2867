"""Time a newcomer's way through the README (`python -m dev.walk --output docs/results/walk_bf16.json`).

The committed state of this checkout is cloned into an empty folder. Commands of the README run there one
after another, each in a new shell with an empty virtual environment. The result has the seconds of each
command; together they take as long as a run of config/quick.yaml.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dev import measure
from dev.measure import ROOT, Facts

README = {
    "install": "pip install '.[model]'",
    "first completion": "cadmus complete '62*4+54*4-'",
    "first program": "cadmus run --trace '\\41-*;6f44*2+='",
    "make run": "make run",
}
"""Commands that the README must have."""


def main() -> None:
    output = measure.parser(__doc__, output=True).parse_args().output
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    if missing := [command for command in README.values() if command not in readme]:
        sys.exit(f"walk: README.md lacks {', '.join(missing)}")
    with tempfile.TemporaryDirectory(prefix="walk-") as folder:
        measure.report(walk(Path(folder)), output)


def walk(folder: Path) -> Facts:
    """Run the commands in a new clone in ``folder``, whose virtual environment is first in the PATH."""
    steps = {"clone": f"git clone --quiet {ROOT} .", **README}
    # Debian's pip installs only into one.
    steps["install"] = f"python3 -m venv {folder}/venv && {README['install']}"
    path = f"{folder}/venv/bin{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": ""}
    clone = folder / "cadmus"
    clone.mkdir()
    seconds: dict[str, float] = {}
    for name, command in steps.items():
        start = time.perf_counter()
        subprocess.run(["bash", "-c", command], cwd=clone, env=environment, stdout=sys.stderr, check=True)
        seconds[name] = round(time.perf_counter() - start, 1)
        print(f"walk: {name} took {seconds[name]} s", file=sys.stderr, flush=True)
    training = json.loads((clone / "results/quick/model/meta.json").read_text())
    return {"precision": training["config"]["train"]["precision"], "seconds": seconds}


if __name__ == "__main__":
    main()
