"""Start-up time of the command line."""

import subprocess
import sys
from functools import partial

from cadmus.bench import Measured, median_seconds
from cadmus.errors import Defect

REPEATS = 15
# Arguments of Python; `python` does nothing.
PROCESSES = {
    "python": ("-c", "pass"),
    "import": ("-c", "import cadmus"),
    "help": ("-m", "cadmus", "--help"),
    "run": ("-m", "cadmus", "run", "34+7="),
}


def bench_start() -> Measured:
    """Measure the wall-clock seconds of :data:`PROCESSES`, medians of :data:`REPEATS`."""
    medians = median_seconds({name: partial(_run, *of) for name, of in PROCESSES.items()}, REPEATS)
    return Measured(
        {"repeats": REPEATS}, {name: {"seconds": round(taken, 3)} for name, taken in medians.items()}
    )


def _run(*arguments: str) -> None:
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True)
    if done.returncode:
        raise Defect(f"{' '.join(arguments)}: {done.stderr}")
