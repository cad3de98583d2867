"""Measurements of speed, each made in the run that reports it."""

import statistics
import time
from collections.abc import Callable

import numpy as np

from cadmus import isa
from cadmus.programs import Programs
from cadmus.vm import compiled, reference

NUMBER_SYMBOLS = "0123456789+-*/%xn<>="
"""The instructions of number programs: digits, arithmetic and comparisons."""
PROGRAM_LENGTH = 33
REPEATS = 5


def bench_vm() -> dict[str, int | float]:
    """Instructions of program text a second of both machines, on one core.

    The programs are uniform over the symbols of :data:`NUMBER_SYMBOLS` ("number") or over all
    instructions but the end ("mixture"), :data:`PROGRAM_LENGTH` instructions long.  A rate is the median
    of :data:`REPEATS` runs; those of the two machines are made in turn, on the same programs, of which the
    readable machine gets the first hundredth.  Compiling is not counted.
    """
    mixture = "".join(isa.BY_SYMBOL).replace(isa.END, "")
    result: dict[str, int | float] = {"program_length": PROGRAM_LENGTH, "repeats": REPEATS}
    for name, symbols in (("number", NUMBER_SYMBOLS), ("mixture", mixture)):
        many = _uniform(symbols, 100_000)
        few = many.take(np.arange(len(many) // 100))
        texts = few.to_strings()
        compiled.verdicts(few)
        rates = [
            (
                _rate(many, lambda many=many: compiled.verdicts(many)),
                _rate(few, lambda texts=texts: [reference.run(program) for program in texts]),
            )
            for _ in range(REPEATS)
        ]
        fast, readable = (statistics.median(column) for column in zip(*rates, strict=True))
        result[f"{name}_programs"] = len(many)
        result[f"{name}_compiled_per_second"] = round(fast)
        result[f"{name}_reference_per_second"] = round(readable)
        result[f"{name}_ratio"] = round(fast / readable, 1)
    return result


def _uniform(symbols: str, count: int) -> Programs:
    """Programs of uniformly drawn symbols, always the same ones."""
    alphabet = np.frombuffer(symbols.encode("ascii"), np.uint8)
    data = alphabet[np.random.default_rng(0).integers(0, len(alphabet), count * PROGRAM_LENGTH)]
    return Programs(data, np.arange(count + 1, dtype=np.int64) * PROGRAM_LENGTH)


def _rate(programs: Programs, execute: Callable[[], object]) -> float:
    """Instructions of ``programs`` that ``execute`` handles in a second."""
    start = time.perf_counter()
    execute()
    return len(programs.data) / (time.perf_counter() - start)
