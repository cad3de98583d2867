"""Time a small study through the workflow; `--output docs/results/study_speed.json` writes the result.

The study of tests/test_study.py, two variants of `tiny` with three seeds, runs in a copy of the checkout and
is then requested again. The result is a JSON file: the seconds of both commands, and the core-seconds per
training that are neither in the jobs of the dataset, nor in trainings or experiments. They are for the
workflow itself, which reads the rules, starts jobs and waits, and for figures and the page.
"""

import tempfile
import time
from pathlib import Path
from typing import Any

import polars as pl

from cadmus.common.provenance import commit
from tests import measured
from tests.checkout import copy_checkout
from tests.test_study import STUDY, snakemake

CORES = 2


def main() -> None:
    arguments = measured.parser(__doc__).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measured.report(measure(copy_checkout(Path(folder) / "cadmus")), arguments.output)


def measure(directory: Path) -> dict[str, Any]:
    """Run the study twice in a copy of the checkout."""
    (directory / "demo.yaml").write_text(STUDY)
    seconds = []
    for _ in range(2):
        started = time.monotonic()
        snakemake(directory).check_returncode()
        seconds.append(round(time.monotonic() - started, 1))
    benchmarks = sorted(directory.glob("results/**/benchmarks/*.tsv"))
    # The manifest alone has all cores.
    used = sum(
        (CORES if path.name == "manifest.tsv" else 1) * pl.read_csv(path, separator="\t")["s"].sum()
        for path in benchmarks
    )
    trainings = [path.name for path in benchmarks].count("train.tsv")
    return {
        "commit": commit(),
        "cores": CORES,
        "timed_jobs": len(benchmarks),
        "trainings": trainings,
        "seconds": seconds[0],
        "seconds_again": seconds[1],
        "other_core_seconds_per_training": round((CORES * seconds[0] - used) / trainings, 1),
    }


if __name__ == "__main__":
    main()
