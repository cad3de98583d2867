"""The speed of the two machines and of the samplers."""

import statistics
import time
from collections.abc import Callable

import numpy as np

from cadmus import isa
from cadmus.bench import Measured
from cadmus.common.progress import progress
from cadmus.programs import Programs
from cadmus.vm import compiled, reference

NUMBER_SYMBOLS = "0123456789+-*/%xn<>="
"""The instructions of number programs: digits, arithmetic and comparisons."""
PROGRAM_LENGTH = 33
REPEATS = 5
CANDIDATES = 65_536
"""Candidates of the number comparison in a batch, as many as the samplers draw at a time."""
TEMPLATE_PROGRAMS = 50_000
"""True programs that are asked of each template."""

ELSEWHERE = "measured elsewhere on a machine of the same kind (AMD EPYC with AVX-512), one core"
PEER_INSTRUCTIONS = {"C switch": 1.5e8, "Numba": 1.2e8, "plain Python": 1.0e7}
"""Instructions a second of other machines for the same semantics, on number programs of 33."""
PEER_CANDIDATES = {
    "C AVX-512 lock step": 3.15e8,
    "C switch": 1.50e7,
    "Numba": 1.35e7,
    "NumPy lock step": 4.7e6,
    "plain Python": 2.8e5,
}
"""Candidates of the number comparison sampled and executed a second, by programs written for them alone."""
PEER_SAMPLES = {
    "Learning to Execute (LuaJIT)": 1.97e5,
    "reasoning-gym chain_sum (not executed)": 1.06e5,
    "mathematics_dataset": 4.6e3,
    "ExeDec RobustFill": 2.3e3,
    "pyshgp": 1.7e3,
    "ExeDec DeepCoder": 46,
}
"""Samples a second of other generators; none of them executes and filters every candidate."""


def bench_vm() -> Measured:
    """Instructions of program text a second of both machines, on one core.

    The programs are uniform over the symbols of :data:`NUMBER_SYMBOLS` ("number") or over all
    instructions but the end ("mixture"), :data:`PROGRAM_LENGTH` instructions long, and candidates of the
    number comparison ("candidates"): two five-instruction halves and a comparator.  A rate is the median of
    :data:`REPEATS` runs; those of the two machines are made in turn, on the same programs, of which the
    readable machine gets the first hundredth.  Compiling is not counted.
    """
    mixture = "".join(isa.BY_SYMBOL).replace(isa.END, "")
    result: Measured = {"program_length": PROGRAM_LENGTH, "repeats": REPEATS}
    for name, symbols in (("number", NUMBER_SYMBOLS), ("mixture", mixture)):
        many = _uniform([symbols] * PROGRAM_LENGTH, 100_000)
        fast, readable = _rates(many, len(many.data))
        result[f"{name}_programs"] = len(many)
        result[f"{name}_compiled_per_second"] = round(fast)
        result[f"{name}_reference_per_second"] = round(readable)
        result[f"{name}_ratio"] = round(fast / readable, 1)
    digit, operator = NUMBER_SYMBOLS[:10], NUMBER_SYMBOLS[10:17]
    halves = [digit if place == "d" else operator for place in "ddodo" + "dddoo"]
    candidates = _uniform([*halves, NUMBER_SYMBOLS[17:]], CANDIDATES)
    fast, readable = _rates(candidates, len(candidates))
    result["candidates"] = len(candidates)
    result["candidates_compiled_per_second"] = round(fast)
    result["candidates_reference_per_second"] = round(readable)
    result["candidates_ratio"] = round(fast / readable, 1)
    result["candidates_true_share"] = round(float(compiled.verdicts(candidates).mean()), 3)
    return result


def bench_templates() -> Measured:
    """True programs a second of each template, on one core.

    Counted are the programs that are drawn, executed, true, of the training split and no duplicates; those
    beyond the :data:`TEMPLATE_PROGRAMS` asked for in the last batch, too.  A rate is the median of
    :data:`REPEATS` shards with the default fields of a config.  What a process prepares once is not counted.
    """
    from cadmus.config import Dataset
    from cadmus.dataset.sampler import Sampler
    from cadmus.templates import TEMPLATES

    result: Measured = {"programs": TEMPLATE_PROGRAMS, "repeats": REPEATS}
    for template in progress("templates", TEMPLATES, unit="template"):
        Sampler(Dataset(), 0, template, "train", 0).sample(1)
        kept, drawn = [], []
        for shard in range(1, REPEATS + 1):
            sampler = Sampler(Dataset(), 0, template, "train", shard)
            start = time.perf_counter()
            sampler.sample(TEMPLATE_PROGRAMS)
            seconds = time.perf_counter() - start
            counts = sampler.counts
            kept.append((counts.kept + counts.surplus) / seconds)
            drawn.append(counts.sampled / seconds)
        result[f"{template}_kept_per_second"] = round(statistics.median(kept))
        result[f"{template}_candidates_per_second"] = round(statistics.median(drawn))
    return result


def _uniform(symbols: list[str], count: int) -> Programs:
    """Programs whose instruction k is uniform over ``symbols[k]``, always the same ones."""
    rng = np.random.default_rng(0)
    columns = [
        np.frombuffer(choices.encode("ascii"), np.uint8)[rng.integers(len(choices), size=count)]
        for choices in symbols
    ]
    data = np.stack(columns, axis=1).ravel()
    return Programs(data, np.arange(count + 1, dtype=np.int64) * len(symbols))


def _rates(many: Programs, amount: int) -> tuple[float, float]:
    """What the compiled and the readable machine do of ``amount``, which ``many`` holds, in a second."""
    few = many.take(np.arange(len(many) // 100))
    texts = few.to_strings()
    compiled.verdicts(few)
    rates = [
        (
            amount / _seconds(lambda: compiled.verdicts(many)),
            amount * len(few) / len(many) / _seconds(lambda: [reference.run(program) for program in texts]),
        )
        for _ in progress("repeats", range(REPEATS))
    ]
    fast, readable = (statistics.median(column) for column in zip(*rates, strict=True))
    return fast, readable


def _seconds(execute: Callable[[], object]) -> float:
    start = time.perf_counter()
    execute()
    return time.perf_counter() - start
