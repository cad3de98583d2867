"""Damage the inputs of commands at random, and check that each command succeeds or names the problem.

python -m tests.inputs --mutants 10000 --seed 1 --output docs/results/fuzz_inputs.json
python -m tests.inputs --seed 1 --first 1234 --mutants 1
"""

import argparse
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.inputs.targets import ENVIRONMENT

SAVED_EVERY = 50
"""Mutants after which the counts are written."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--mutants", type=int, default=300, help="number of mutants, 300 by default")
    parser.add_argument("--seed", type=int, default=0, help="of the mutants")
    parser.add_argument("--first", type=int, default=0, help="number of the first mutant")
    parser.add_argument("--output", type=Path, help="JSON file for the counts")
    parser.add_argument("--verbose", action="store_true", help="print every mutant")
    given = parser.parse_args()
    os.environ.update(ENVIRONMENT)

    from cadmus.common.provenance import commit
    from tests.inputs.runner import OUTCOMES, Result, fuzz, warm

    directory = Path(tempfile.mkdtemp(prefix="cadmus-inputs-"))
    os.environ["XDG_STATE_HOME"] = str(directory / "home")
    warm()
    counts: dict[str, Counter[str]] = {}
    cpu_seconds: Counter[str] = Counter()
    failures: list[Result] = []
    start, done = time.perf_counter(), 0

    def record() -> str:
        total = sum(counts.values(), Counter())
        values = {
            "commit": commit(),
            "seed": given.seed,
            "first": given.first,
            "mutants": done,
            "seconds": round(time.perf_counter() - start),
            "cpu_seconds": round(cpu_seconds.total()),
            **{outcome: total[outcome] for outcome in OUTCOMES},
            "targets": {
                name: {
                    **{outcome: found[outcome] for outcome in OUTCOMES},
                    "cpu_seconds": round(cpu_seconds[name], 1),
                }
                for name, found in sorted(counts.items())
            },
            "failures": [
                {
                    "mutant": found.mutant.number,
                    "command": found.mutant.command.line,
                    "problems": found.problems,
                }
                for found in failures
            ],
        }
        # A line per target and failure.
        text = re.sub(r"\n {3,}|\n  (?=[}\]])", " ", json.dumps(values, indent=1)) + "\n"
        if given.output:
            given.output.write_text(text, encoding="utf-8")
        return text

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for result in fuzz(directory, given.seed, range(given.first, given.first + given.mutants)):
            done += 1
            counts.setdefault(result.mutant.target, Counter())[result.outcome] += 1
            cpu_seconds[result.mutant.target] += result.ended.seconds
            if result.outcome == "failed":
                failures.append(result)
            if given.verbose or result.outcome == "failed":
                _print(result, given.seed)
            if done % SAVED_EVERY == 0:
                record()
    except KeyboardInterrupt:
        print(f"interrupted after {done} mutants", file=sys.stderr)
    print(record(), end="")
    if not failures:
        shutil.rmtree(directory)
    sys.exit(1 if failures or done < given.mutants else 0)


def _print(result: "Result", seed: int) -> None:  # noqa: F821
    mutant, ended = result.mutant, result.ended
    what = f"{mutant.file}: {ended.change}" if mutant.file else ended.change
    print(f"mutant {mutant.number}: {result.outcome}: {ended.seconds:.2f} s: cadmus {mutant.command.line}")
    print(f"  {what[:300]}")
    for problem in result.problems:
        print(f"  {problem}")
    for line in ended.stderr.strip().splitlines()[-1:]:
        print(f"  {line[:300]}")
    if result.problems:
        print(f"  repeat: python -m tests.inputs --seed {seed} --first {mutant.number} --mutants 1")
    sys.stdout.flush()


main()
