"""Time a small study through the workflow (`python -m dev.study_speed --output docs/results/study_speed.json`).

The study of tests/test_study.py, two variants of `tiny` with three seeds, runs in a copy of the checkout and
is then requested again. The result has the seconds of both commands, and the core-seconds per training that
are neither in the jobs of the dataset, nor in trainings or experiments. They are for the workflow itself,
which reads the rules, starts jobs and waits, and for figures and the page.
"""

import tempfile
from pathlib import Path

import polars as pl

from dev import measure
from dev.measure import Facts
from tests.checkout import copy_checkout
from tests.test_study import STUDY, snakemake

CORES = 2


def main() -> None:
    output = measure.parser(__doc__).parse_args().output
    with tempfile.TemporaryDirectory() as folder:
        measure.report(study_speed(copy_checkout(Path(folder) / "cadmus")), output)


def study_speed(directory: Path) -> Facts:
    """Run the study twice in a copy of the checkout."""
    (directory / "demo.yaml").write_text(STUDY)
    seconds = [measure.seconds_of(lambda: snakemake(directory).check_returncode()) for _ in range(2)]
    benchmarks = sorted(directory.glob("results/**/benchmarks/*.tsv"))
    # The manifest alone has all cores.
    used = sum(
        (CORES if path.name == "manifest.tsv" else 1) * pl.read_csv(path, separator="\t")["s"].sum()
        for path in benchmarks
    )
    trainings = [path.name for path in benchmarks].count("train.tsv")
    return {
        "cores": CORES,
        "timed_jobs": len(benchmarks),
        "trainings": trainings,
        "seconds": round(seconds[0], 1),
        "seconds_again": round(seconds[1], 1),
        "other_core_seconds_per_training": round((CORES * seconds[0] - used) / trainings, 1),
    }


if __name__ == "__main__":
    main()
