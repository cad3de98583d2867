r"""Compare the two VMs on random and mutated programs.

The seed and the number of a chunk determine its programs, whatever the number of processes. Most are short:
they reach as much as long ones and cost the reference VM, which takes nearly all of the time, less. At the
first disagreement the tool prints the program, the shortest form that still disagrees and both results, and
exits with 1.

python -m dev.fuzz --programs 10000000 --seed 1
"""

import gc
import multiprocessing
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from cadmus import isa
from cadmus.config import Dataset
from cadmus.programs import Programs
from cadmus.templates import TEMPLATES, Draw
from cadmus.tools import cores, progress, seed_of
from cadmus.vm import compiled, reference
from cadmus.vm.reference import Result, show
from dev.measure import parser

CHUNK = 50_000
"""Programs per chunk; a change gives every seed other programs."""
ALL = "".join(isa.BY_SYMBOL)
RUNNING = ALL.replace(isa.END, "")
_GROUPS = ("literals", "arithmetic", "comparison and logic", "unary")
NUMBERS = "".join(row.symbol for row in isa.INSTRUCTIONS if row.group in _GROUPS and row.name != "empty")
_INSIDE = RUNNING.replace("\\", "").replace(";", "")
# Weighted so that programs build sequences, and calls find a subroutine and values on the stack.
_BUILDING = "0123456789tZ" + "uIIIIbbbbEEoo:" * 2
_VALUES = [*"01237tZ", "92:", "05:", "u", "3I", "4I1:", "u7bZ3:b1b", "2I5I:", "tt*t*t*t*"]
_TOP = _INSIDE + 2 * _BUILDING + "fghFGmwl" * 2 + "mwl" * 2
_BODY = _INSIDE + _BUILDING + "++--x''<=?!" + "ERERERfgmmwlI"


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--programs", type=int, default=1_000_000, help="number of programs")
    options.add_argument("--seed", type=int, default=0, help="of the programs")
    options.add_argument("--jobs", type=int, default=cores(), help="number of processes")
    given = options.parse_args()
    start = time.perf_counter()
    for chunk, program in enumerate(fuzz(given.programs, given.seed, given.jobs)):
        if program is not None:
            shortest = shrink(program)
            sys.exit(
                f"the VMs disagree on a program of chunk {chunk} of seed {given.seed}:\n"
                f"  program    {program}\n"
                f"  shortest   {shortest}\n"
                f"  reference  {_shown(reference.run(shortest))}\n"
                f"  compiled   {_shown(run_compiled([shortest])[0])}"
            )
    seconds = time.perf_counter() - start
    rate = f"{seconds:.1f} s, {given.programs / seconds:,.0f} programs/s"
    print(f"the VMs agree on {given.programs:,} programs of seed {given.seed}: {rate}")


def _shown(result: Result) -> str:
    return f"{' '.join(map(show, result.outputs)) or 'nothing'}, {'true' if result.true else 'false'}"


def fuzz(programs: int, seed: int, jobs: int) -> Iterator[str | None]:
    """Run programs on both VMs; yield a program of each chunk on which they disagree, or None."""
    starts = range(0, programs, CHUNK)
    tasks = [(seed, chunk, min(CHUNK, programs - start)) for chunk, start in enumerate(starts)]
    # Without reference cycles, collecting them wastes a tenth of the time.
    with multiprocessing.get_context("spawn").Pool(min(jobs, len(tasks)), gc.disable) as pool:
        yield from progress("fuzz", pool.imap(try_chunk, tasks), total=len(tasks), unit="chunk")


def try_chunk(task: tuple[int, int, int]) -> str | None:
    """Return the first program of a chunk, (seed, number, programs), on which the VMs disagree."""
    seed, chunk, count = task
    try:
        programs = programs_of(seed, chunk)[:count]
        pairs = zip(programs, run_compiled(programs), strict=True)
        return next((program for program, result in pairs if reference.run(program) != result), None)
    except Exception as error:
        raise RuntimeError(f"a VM fails on a program of chunk {chunk} of seed {seed}") from error


def run_compiled(programs: list[str]) -> list[Result]:
    """Run programs on the compiled VM; the results are comparable with those of the reference VM.

    A number is a pair of integers and a sequence a tuple of pairs, so values of two types are never equal.
    """
    batch = Programs.from_strings(programs)
    return list(map(Result, compiled.outputs(batch), compiled.are_true(batch).tolist()))


def agree(program: str) -> bool:
    """Return True if both VMs give the same results."""
    return [reference.run(program)] == run_compiled([program])


def shrink(program: str) -> str:
    """Delete pieces, from halves to single instructions, as long as the VMs still disagree."""
    size = max(len(program) // 2, 1)
    while size:
        pieces = [program[:start] + program[start + size :] for start in range(0, len(program), size)]
        shorter = next((piece for piece in pieces if not agree(piece)), None)
        if shorter is None:
            size //= 2
        else:
            program = shorter
    return program


def programs_of(seed: int, chunk: int) -> list[str]:
    """Return the :data:`CHUNK` programs of a chunk."""
    rng = random.Random(seed_of("fuzz", seed, chunk))
    draw = Draw(np.random.default_rng(seed_of("fuzz", seed, chunk)), Dataset())
    each = CHUNK // len(TEMPLATES) // 4
    originals = [text for made in TEMPLATES.values() for text in made(draw, each).programs.to_strings()]
    programs = [make(rng) for make, share in KINDS.items() for _ in range(CHUNK * share // 10_000)]
    programs += [_mutated(rng, rng.choice(originals)) for _ in range(CHUNK - len(programs))]
    # Every prefix of a chunk contains all kinds.
    rng.shuffle(programs)
    return programs


def _some(rng: random.Random, symbols: Sequence[str], fewest: int, most: int) -> str:
    return "".join(rng.choices(symbols, k=rng.randint(fewest, most)))


def _uniform(rng: random.Random, symbols: str = RUNNING) -> str:
    # Mostly up to 12, one in 50 up to 80.
    return _some(rng, symbols, 0, 80 if rng.random() < 0.02 else 12)


def _on_values(rng: random.Random) -> str:
    return _some(rng, _VALUES, 1, 4) + _some(rng, RUNNING, 1, 8)


def _with_definitions(rng: random.Random) -> str:
    """Draw one to three definitions, mixed with a top level that calls them."""
    pieces = [f"\\{_some(rng, _BODY, 0, 7)};" for _ in range(rng.randint(1, 3))]
    pieces.insert(rng.randint(0, 3), _some(rng, _TOP, 0, 8))
    return "".join([*pieces, _some(rng, _TOP, 0, 8)])


def _spending(rng: random.Random) -> str:
    """Draw nested calls that exhaust depth and budget at any point of a body."""
    calls = ["f_3", "g_1", "ER", "9Im_2", "3I0l_1", "5Iw_", "f", "E", "5F"]
    bodies = [_some(rng, [*calls, "~" * rng.randint(0, 300)], 1, 5) for _ in range(2)]
    return f"\\{bodies[0]};\\{bodies[1]};{_some(rng, '5I1fgFm', 0, 8)}9I5mf"


def _mutated(rng: random.Random, program: str) -> str:
    """Delete, insert, replace, swap and double pieces of a candidate of a template."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        start, middle, stop = sorted(int(rng.random() * (len(program) + 1)) for _ in range(3))
        first, second = program[start:middle], program[middle:stop]
        new = "".join(rng.choices(ALL, k=rng.choice((1, 1, 2, 4))))
        edits = (second, first + new + second, new + second, second + first, first + first + second)
        program = program[:start] + rng.choice(edits) + program[stop:]
    return program


KINDS: dict[Callable[[random.Random], str], int] = {
    _uniform: 1000,
    partial(_uniform, symbols=ALL): 500,
    partial(_uniform, symbols=NUMBERS + "0123456789"): 2000,
    _on_values: 2000,
    _with_definitions: 3000,
    # Each takes the reference VM as long as a hundred others.
    _spending: 2,
}
"""Programs of each kind in ten thousand; the rest are mutated candidates of the templates."""


if __name__ == "__main__":
    main()
