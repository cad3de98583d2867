"""Time a newcomer's way through the README (`python -m dev.walk --output docs/benchmarks/walk_bf16.json`).

The committed state of this checkout is cloned into an empty folder. Commands of the README run there one
after another, each in a new shell, and its Python. The result has the seconds of each; together they take
as long as a run of config/quick.yaml.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dev import measure
from dev.measure import ROOT, Facts

COMMANDS = {"install": "make .venv/installed", "make run": "make run"}
"""Commands that the README must have; its Python runs between them."""


def main() -> None:
    options = measure.parser(__doc__, output=True)
    options.add_argument("--folder", type=Path, help="empty folder that keeps the clone and its results")
    given = options.parse_args()
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    if missing := [command for command in COMMANDS.values() if command not in readme]:
        sys.exit(f"walk: README.md lacks {', '.join(missing)}")
    (example,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    with tempfile.TemporaryDirectory(prefix="walk-") as folder:
        measure.report(walk(given.folder or Path(folder), example), given.output)


def walk(folder: Path, example: str) -> Facts:
    """Run the commands and the example in a new clone in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "example.py").write_text(example, encoding="utf-8")
    install, run = COMMANDS.items()
    steps = {"clone": f"git clone --quiet {ROOT} ."}
    steps |= dict([install, ("first completion", ".venv/bin/python ../example.py"), run])
    environment = {**os.environ, "PYTHONPATH": ""}
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
