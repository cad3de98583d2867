"""Speed of the VMs and of the samplers."""

import statistics
from functools import partial

import numpy as np

from cadmus import isa
from cadmus.config import Dataset
from cadmus.dataset.sampler import Sampler
from cadmus.programs import Programs
from cadmus.templates import TEMPLATES
from cadmus.tools import progress
from cadmus.vm import compiled, reference
from dev.measure import Facts, flat, median_seconds, seconds_of

DIGITS, ARITHMETIC, COMPARISONS = "0123456789", "+-*/%xn", "<>="
PROGRAMS, PROGRAM_LENGTH = 100_000, 33
CANDIDATES = 65_536
"""Candidates in a batch, as many as the samplers draw at a time."""
TEMPLATE_PROGRAMS = 50_000
"""True programs requested from each template."""
REPEATS = 5


def vm() -> Facts:
    """Measure both VMs on one core; the reference VM runs the first hundredth of the programs.

    ``number`` and ``mixture`` count instructions per second: programs uniform over digits, arithmetic and
    comparisons, or over all instructions but the end. ``candidates`` counts programs per second: two
    expressions of five instructions and a comparator.
    """
    half = (DIGITS, DIGITS, ARITHMETIC, DIGITS, ARITHMETIC, DIGITS, DIGITS, DIGITS, ARITHMETIC, ARITHMETIC)
    number = _uniform([DIGITS + ARITHMETIC + COMPARISONS] * PROGRAM_LENGTH, PROGRAMS)
    mixture = _uniform(["".join(isa.BY_SYMBOL).replace(isa.END, "")] * PROGRAM_LENGTH, PROGRAMS)
    candidates = _uniform([*half, COMPARISONS], CANDIDATES)
    facts = {
        "program_length": PROGRAM_LENGTH,
        "repeats": REPEATS,
        "candidates": CANDIDATES,
        "candidates_true_share": round(float(compiled.are_true(candidates).mean()), 3),
    }
    rows = {
        "number": {"programs": PROGRAMS, **_vm_rates(number, PROGRAM_LENGTH)},
        "mixture": {"programs": PROGRAMS, **_vm_rates(mixture, PROGRAM_LENGTH)},
        "candidates": _vm_rates(candidates, 1),
    }
    return flat(facts, rows)


def _uniform(symbols: list[str], count: int) -> Programs:
    """Return ``count`` programs whose instruction k is uniform over ``symbols[k]``."""
    rng = np.random.default_rng(0)
    columns = [rng.choice(np.frombuffer(choices.encode(), np.uint8), count) for choices in symbols]
    return Programs(np.stack(columns, axis=1).ravel(), np.arange(count + 1, dtype=np.int64) * len(symbols))


def _vm_rates(many: Programs, units: int) -> Facts:
    """Return the rates of both VMs, in ``units`` per program, and their ratio."""
    few = many.take(np.arange(len(many) // 100))
    texts = few.to_strings()
    vms = {"compiled": lambda: compiled.are_true(many), "reference": lambda: list(map(reference.run, texts))}
    seconds = median_seconds(vms, REPEATS)
    fast, slow = units * len(many) / seconds["compiled"], units * len(few) / seconds["reference"]
    return {
        "compiled_per_second": round(fast),
        "reference_per_second": round(slow),
        "ratio": round(fast / slow, 1),
    }


def templates() -> Facts:
    """Measure the true programs of the training split, without duplicates, per second and core."""
    rows: dict[str, Facts] = {}
    for template in progress("templates", TEMPLATES, unit="template"):
        # The first call prepares what a process needs once.
        Sampler(Dataset(), 0, template, "train", 0).sample(1)
        kept, sampled = [], []
        for shard in range(1, REPEATS + 1):
            sampler = Sampler(Dataset(), 0, template, "train", shard)
            seconds = seconds_of(partial(sampler.sample, TEMPLATE_PROGRAMS))
            kept.append((sampler.counts.kept + sampler.counts.surplus) / seconds)
            sampled.append(sampler.counts.sampled / seconds)
        rows[template] = {
            "kept_per_second": round(statistics.median(kept)),
            "candidates_per_second": round(statistics.median(sampled)),
        }
    return flat({"programs": TEMPLATE_PROGRAMS, "repeats": REPEATS}, rows)
