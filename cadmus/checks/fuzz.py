r"""Compare the two VMs on random and mutated programs.

Programs come in chunks. The seed and the number of a chunk determine its programs, whatever the number of
processes. Most programs are short: they reach as much as long ones and cost the reference VM, which takes
nearly all of the time, less.
"""

import gc
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import NamedTuple

import numpy as np

from cadmus import isa
from cadmus.common import interrupts
from cadmus.config import Dataset
from cadmus.errors import Defect
from cadmus.programs import Programs, offsets_of
from cadmus.templates import TEMPLATES, Draw
from cadmus.tools import seed_of
from cadmus.vm import compiled, lockstep, reference
from cadmus.vm.reference import Result

CHUNK = 50_000
"""Programs per chunk; a change gives every seed other programs."""

ALL = "".join(isa.BY_SYMBOL)
RUNNING = ALL.replace(isa.END, "")
NUMBERS = "".join(symbol for symbol in RUNNING if lockstep.ALLOWED[ord(symbol)])
_INSIDE = RUNNING.replace("\\", "").replace(";", "")
# Weighted so that programs build sequences, and calls find a subroutine and values on the stack.
_BUILDING = "0123456789tZ" + "uIIIIbbbbEEoo:" * 2
_VALUES = [
    "0",
    "1",
    "2",
    "3",
    "7",
    "t",
    "Z",
    "92:",
    "05:",
    "u",
    "3I",
    "4I1:",
    "u7bZ3:b1b",
    "2I5I:",
    "tt*t*t*t*",
]
_TOP = _INSIDE + 2 * _BUILDING + "fghFGmwl" * 2 + "mwl" * 2
_BODY = _INSIDE + _BUILDING + "++--x''<=?!" + "ERERERfgmmwlI"


class Disagreement(NamedTuple):
    """A program on which the VMs differ, and the shortest found by deleting instructions from it."""

    chunk: int
    program: str
    shortest: str
    reference: Result
    compiled: Result


def fuzz(
    programs: int, seed: int, jobs: int, done: Callable[[int], object], first_chunk: int = 0
) -> Disagreement | None:
    """Run programs on both VMs until they disagree.

    Args:
        programs: number of programs.
        seed: selects the programs.
        jobs: number of processes; 1 runs in this process.
        done: called with the number of programs after each chunk without a disagreement.
        first_chunk: skip the chunks before, which an earlier run has done.

    Returns:
        The disagreement in the first chunk that has one, or None.

    Raises:
        KeyboardInterrupt: SIGINT or SIGTERM, with several processes.
    """
    counts = [min(CHUNK, programs - start) for start in range(0, programs, CHUNK)]
    tasks = [(seed, chunk, count) for chunk, count in enumerate(counts, first_chunk)]
    with ExitStack() as stack:
        results: Iterator[Disagreement | None]
        if jobs == 1:
            results = map(_try_chunk, tasks)
        else:
            stack.enter_context(interrupts.raising())
            with interrupts.held_back():
                pool = _Context().Pool(jobs, _start_worker)
                stack.enter_context(pool)
            results = pool.imap(_try_chunk, tasks)
        for count, disagreement in zip(counts, results, strict=True):
            if disagreement is not None:
                return disagreement
            done(count)
    return None


class _Worker(SpawnProcess):
    def terminate(self) -> None:
        # Signals are blocked in a worker. Otherwise, the pool would replace those that a signal ended.
        self.kill()


class _Context(SpawnContext):
    Process = _Worker


def _start_worker() -> None:
    # Without reference cycles, collecting them wastes a tenth of the time.
    gc.disable()


def _try_chunk(task: tuple[int, int, int]) -> Disagreement | None:
    seed, chunk, count = task
    try:
        programs = programs_of(seed, chunk)[:count]
        for program, result in zip(programs, run_compiled(programs), strict=True):
            if reference.run(program) != result:
                shortest = shrink(program, lambda text: reference.run(text) != run_compiled([text])[0])
                return Disagreement(
                    chunk, program, shortest, reference.run(shortest), run_compiled([shortest])[0]
                )
        return None
    except Exception as error:
        raise Defect(f"a VM fails on a program of chunk {chunk} of seed {seed}") from error


def run_compiled(programs: list[str]) -> list[Result]:
    """Run programs on the compiled VM; the results are comparable with those of the reference VM.

    A number is a pair of integers and a sequence a tuple of pairs, so values of two types are never equal.
    """
    batch = Programs.from_strings(programs)
    return list(map(Result, compiled.outputs(batch), compiled.verdicts(batch).tolist()))


def shrink(program: str, fails: Callable[[str], bool]) -> str:
    """Delete pieces of ``program``, from halves to single instructions, as long as it still fails.

    Returns:
        A failing program that no longer fails without any one of its instructions.
    """
    size = max(len(program) // 2, 1)
    while True:
        before, start = program, 0
        while start < len(program):
            shorter = program[:start] + program[start + size :]
            if fails(shorter):
                program = shorter
            else:
                start += size
        if size > 1:
            size //= 2
        elif program == before:
            return program


def programs_of(seed: int, chunk: int) -> list[str]:
    """Return the :data:`CHUNK` programs of a chunk."""
    numbers = np.random.default_rng(seed_of("fuzz", seed, chunk))
    rng = random.Random(seed_of("fuzz", seed, chunk, "python"))
    programs = [
        *_texts(numbers, RUNNING, _lengths(numbers, CHUNK // 10)),
        *_on_values(numbers, rng, CHUNK // 5),
        *_texts(numbers, ALL, _lengths(numbers, CHUNK // 20)),
        *_texts(numbers, NUMBERS + "0123456789", _lengths(numbers, CHUNK // 5)),
        *_with_definitions(numbers, CHUNK * 3 // 10),
        *_spending(rng, CHUNK // 5_000),
    ]
    programs += _mutated(numbers, rng, CHUNK - len(programs))
    # Every prefix of a chunk contains all kinds.
    rng.shuffle(programs)
    return programs


def _lengths(rng: np.random.Generator, n: int) -> np.ndarray:
    """Draw lengths, mostly up to 12, one in 50 up to 80."""
    return rng.integers(0, np.where(rng.random(n) < 0.02, 81, 13))


def _texts(rng: np.random.Generator, symbols: str, lengths: np.ndarray) -> list[str]:
    """Draw programs uniformly from ``symbols``, which may repeat a symbol."""
    offsets = offsets_of(lengths)
    alphabet = np.frombuffer(symbols.encode("ascii"), np.uint8)
    return Programs(alphabet[rng.integers(len(alphabet), size=offsets[-1])], offsets).to_strings()


def _on_values(numbers: np.random.Generator, rng: random.Random, n: int) -> list[str]:
    """Draw uniform programs after one to four values."""
    texts = _texts(numbers, RUNNING, numbers.integers(1, 9, n))
    return ["".join(rng.choices(_VALUES, k=rng.choice((1, 2, 3, 4)))) + program for program in texts]


def _with_definitions(rng: np.random.Generator, n: int) -> list[str]:
    """Draw programs of one to three definitions, mixed with a top level that calls them."""
    top = iter(_texts(rng, _TOP, rng.integers(0, 9, 2 * n)))
    bodies = iter(_texts(rng, _BODY, rng.integers(0, 8, 3 * n)))
    programs = []
    counts, places = rng.integers(1, 4, n), rng.integers(0, 4, n)
    for count, place in zip(counts.tolist(), places.tolist(), strict=True):
        pieces = [f"\\{next(bodies)};" for _ in range(count)]
        pieces.insert(place, next(top))
        programs.append("".join(pieces) + next(top))
    return programs


def _spending(rng: random.Random, n: int) -> list[str]:
    """Draw nested calls that exhaust depth and budget at any point of a body.

    A few suffice: each takes the reference VM as long as a hundred others.
    """
    calls = ["f_3", "g_1", "ER", "9Im_2", "3I0l_1", "5Iw_", "f", "E", "5F"]
    programs = []
    for _ in range(n):
        bodies = (
            "".join(rng.choices([*calls, "~" * rng.randint(0, 300)], k=rng.randint(1, 5))) for _ in range(2)
        )
        top = "".join(rng.choices("5I1fgFm", k=rng.randint(0, 8)))
        programs.append("".join(f"\\{body};" for body in bodies) + top + "9I5mf")
    return programs


def _mutated(numbers: np.random.Generator, rng: random.Random, n: int) -> list[str]:
    """Mutate candidates of the templates: delete, insert, replace, swap and double pieces."""
    draw = Draw(numbers, Dataset())
    share = -(-n // (4 * len(TEMPLATES)))
    originals = [
        program for template in TEMPLATES.values() for program in template(draw, share).programs.to_strings()
    ]
    return [_mutate(rng, rng.choice(originals)) for _ in range(n)]


def _mutate(rng: random.Random, program: str) -> str:
    for _ in range(rng.choice((1, 1, 2, 3))):
        start, middle, stop = sorted(int(rng.random() * (len(program) + 1)) for _ in range(3))
        before, after = program[:start], program[stop:]
        first, second = program[start:middle], program[middle:stop]
        edit = rng.random()
        if edit < 0.2:
            program = before + second + after
        elif edit < 0.4:
            program = before + first + "".join(rng.choices(ALL, k=rng.choice((1, 1, 2, 4)))) + second + after
        elif edit < 0.6:
            program = program[:start] + rng.choice(ALL) + program[start + 1 :]
        elif edit < 0.8:
            program = before + second + first + after
        else:
            program = before + first + first + second + after
    return program
