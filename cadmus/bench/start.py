"""How long the command line takes to start, beside a Python that does nothing."""

import statistics
import subprocess
import sys
import time

from cadmus.bench import Measured
from cadmus.common.progress import progress
from cadmus.errors import Defect

REPEATS = 15
PROCESSES = {
    "python": ("-c", "pass"),
    "import": ("-c", "import cadmus"),
    "help": ("-m", "cadmus", "--help"),
    "run": ("-m", "cadmus", "run", "34+7="),
}
"""What is started, each by this Python."""


def bench_start() -> Measured:
    """Seconds on the clock from the start of each of :data:`PROCESSES` to its end, medians.

    They take turns, so that what else the machine does meets all of them.
    """
    seconds: dict[str, list[float]] = {name: [] for name in PROCESSES}
    for _ in progress("repeats", range(REPEATS)):
        for name, arguments in PROCESSES.items():
            start = time.perf_counter()
            done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True)
            seconds[name].append(time.perf_counter() - start)
            if done.returncode:
                raise Defect(f"{' '.join(arguments)}: {done.stderr}")
    medians = {f"{name}_seconds": round(statistics.median(taken), 3) for name, taken in seconds.items()}
    return {"repeats": REPEATS, **medians}
