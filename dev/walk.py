"""Time a newcomer's way through the README (`python -m dev.walk FOLDER --output RESULT.json`).

The committed state of this checkout is cloned into a folder. Commands of the README run there one
after another, each in a new shell, and its Python. The result has the seconds of each; together they take
as long as a run of config/quick.yaml.
"""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from dev import measure
from dev.measure import ROOT, Facts

INSTALL, RUN = "make .venv/installed", "make run"
"""Commands that the README must have; its Python runs between them."""


def main() -> None:
    options = measure.parser(__doc__, output=True)
    options.add_argument("folder", type=Path, help="gets the clone and its results")
    given = options.parse_args()
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    if missing := [command for command in (INSTALL, RUN) if command not in readme]:
        sys.exit(f"walk: README.md lacks {', '.join(missing)}")
    (example,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    measure.report(walk(given.folder, example), given.output)


def walk(folder: Path, example: str) -> Facts:
    """Run the commands and the example in a new clone in ``folder``."""
    (clone := folder / "cadmus").mkdir(parents=True)
    (folder / "example.py").write_text(example, encoding="utf-8")
    steps = {"clone": f"git clone --quiet {ROOT} .", "install": INSTALL}
    steps |= {"first completion": ".venv/bin/python ../example.py", "make run": RUN}
    environment = {**os.environ, "PYTHONPATH": ""}
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
