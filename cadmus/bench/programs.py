"""Speed of the two VMs and of the template samplers."""

import statistics
import time

import numpy as np

from cadmus import isa
from cadmus.bench import Facts, Measured, median_seconds
from cadmus.programs import Programs
from cadmus.tools import progress
from cadmus.vm import compiled, reference

DIGITS = "0123456789"
ARITHMETIC = "+-*/%xn"
COMPARISONS = "<>="
PROGRAM_LENGTH = 33
PROGRAMS = 100_000
# Candidates in a batch, as many as the samplers draw at a time.
CANDIDATES = 65_536
# True programs requested from each template.
TEMPLATE_PROGRAMS = 50_000
REPEATS = 5


def bench_vm() -> Measured:
    """Measure both VMs on one core, on the same programs; compilation is not included.

    The reference VM runs the first hundredth of the programs.  Rates are medians of :data:`REPEATS`.
    ``number`` and ``mixture`` count instructions per second: programs of :data:`PROGRAM_LENGTH` instructions,
    uniform over digits, arithmetic and comparisons, or over all instructions but the end.  ``candidates``
    counts programs per second: two expressions of five instructions and a comparator.
    """
    half = (DIGITS, DIGITS, ARITHMETIC, DIGITS, ARITHMETIC, DIGITS, DIGITS, DIGITS, ARITHMETIC, ARITHMETIC)
    number = _uniform([DIGITS + ARITHMETIC + COMPARISONS] * PROGRAM_LENGTH, PROGRAMS)
    mixture = _uniform(["".join(isa.BY_SYMBOL).replace(isa.END, "")] * PROGRAM_LENGTH, PROGRAMS)
    candidates = _uniform([*half, COMPARISONS], CANDIDATES)
    facts = {
        "program_length": PROGRAM_LENGTH,
        "repeats": REPEATS,
        "candidates": CANDIDATES,
        "candidates_true_share": round(float(compiled.verdicts(candidates).mean()), 3),
    }
    rows = {
        "number": {"programs": PROGRAMS, **_rates(number, PROGRAM_LENGTH)},
        "mixture": {"programs": PROGRAMS, **_rates(mixture, PROGRAM_LENGTH)},
        "candidates": _rates(candidates, 1),
    }
    return Measured(facts, rows)


def bench_templates() -> Measured:
    """Measure the true programs per second of each template, on one core.

    Programs count if they were executed and kept: true, of the training split and no duplicates.  Rates are
    medians of :data:`REPEATS` shards with the default config.
    """
    from cadmus.config import Dataset
    from cadmus.dataset.sampler import Sampler
    from cadmus.templates import TEMPLATES

    rows: dict[str, Facts] = {}
    for template in progress("templates", TEMPLATES, unit="template"):
        # The first call prepares what a process needs once.
        Sampler(Dataset(), 0, template, "train", 0).sample(1)
        kept, sampled = [], []
        for shard in range(1, REPEATS + 1):
            sampler = Sampler(Dataset(), 0, template, "train", shard)
            start = time.perf_counter()
            sampler.sample(TEMPLATE_PROGRAMS)
            seconds = time.perf_counter() - start
            counts = sampler.counts
            kept.append((counts.kept + counts.surplus) / seconds)
            sampled.append(counts.sampled / seconds)
        rows[template] = {
            "kept_per_second": round(statistics.median(kept)),
            "candidates_per_second": round(statistics.median(sampled)),
        }
    return Measured({"programs": TEMPLATE_PROGRAMS, "repeats": REPEATS}, rows)


def _uniform(symbols: list[str], count: int) -> Programs:
    """Return ``count`` programs whose instruction k is uniform over ``symbols[k]``."""
    rng = np.random.default_rng(0)
    columns = [
        np.frombuffer(choices.encode("ascii"), np.uint8)[rng.integers(len(choices), size=count)]
        for choices in symbols
    ]
    data = np.stack(columns, axis=1).ravel()
    return Programs(data, np.arange(count + 1, dtype=np.int64) * len(symbols))


def _rates(many: Programs, units: int) -> Facts:
    """Return the rates of both VMs, in ``units`` per program, and their ratio."""
    few = many.take(np.arange(len(many) // 100))
    texts = few.to_strings()
    compiled.verdicts(few)
    seconds = median_seconds(
        {
            "compiled": lambda: compiled.verdicts(many),
            "reference": lambda: [reference.run(program) for program in texts],
        },
        REPEATS,
    )
    fast, slow = units * len(many) / seconds["compiled"], units * len(few) / seconds["reference"]
    return {
        "compiled_per_second": round(fast),
        "reference_per_second": round(slow),
        "ratio": round(fast / slow, 1),
    }
