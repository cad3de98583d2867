"""The compiled VM: the semantics of :mod:`cadmus.vm.reference` for batches of programs, in Numba.

Number programs run in lock step (:mod:`cadmus.vm.lockstep`), all others in the interpreter
(:mod:`cadmus.vm.kernel`).
"""

from itertools import pairwise

import numpy as np

from cadmus import isa
from cadmus.errors import InputError
from cadmus.programs import Programs, offsets_of
from cadmus.vm import kernel, lockstep, opcodes
from cadmus.vm.jit import jit
from cadmus.vm.outcome import NAN, NUMBER, SEQUENCE, Outcome
from cadmus.vm.reference import Number, Sequence, Value

__all__ = ["NAN", "NUMBER", "SEQUENCE", "Outcome", "execute", "outputs", "same_outputs", "verdicts"]


def verdicts(programs: Programs) -> np.ndarray:
    """Return whether each program is true: bool, shape (n,)."""
    return _execute(programs, np.zeros(len(programs) + 1, np.int64)).true


def execute(programs: Programs) -> Outcome:
    """Return the verdict, the number of outputs and the top output of each program."""
    return _execute(programs, np.arange(len(programs) + 1, dtype=np.int64))


def same_outputs(programs: Programs, others: Programs) -> np.ndarray:
    """Return whether each program leaves the same outputs as the other: bool, shape (n,)."""
    counts = [execute(batch).count for batch in (programs, others)]
    same: np.ndarray = counts[0] == counts[1]
    rows = np.flatnonzero(same & (counts[0] > 0))
    bounds = offsets_of(counts[0][rows])
    ours, theirs = (_execute(batch.take(rows), bounds) for batch in (programs, others))
    equal = (ours.kind == theirs.kind) & (ours.length == theirs.length)
    equal &= (ours.values == theirs.values).all(1) & (ours.decorations == theirs.decorations).all(1)
    if len(rows):
        same[rows] = np.logical_and.reduceat(equal, bounds[:-1])
    return same


def outputs(programs: Programs) -> list[list[Value]]:
    """Return all outputs of each program as Python values; for tests and small batches."""
    bounds = offsets_of(execute(programs).count)
    outcome = _execute(programs, bounds)
    # Most values are numbers, so the first elements are converted in bulk.
    first = zip(
        outcome.kind.tolist(),
        outcome.values[:, 0].tolist(),
        outcome.decorations[:, 0].tolist(),
        strict=True,
    )
    values: list[Value] = [
        Number(value, decoration) if kind == NUMBER else None if kind == NAN else _sequence(outcome, row)
        for row, (kind, value, decoration) in enumerate(first)
    ]
    return [values[start:stop] for start, stop in pairwise(bounds.tolist())]


def _sequence(outcome: Outcome, row: int) -> Sequence:
    length = outcome.length[row]
    return Sequence(
        map(Number, outcome.values[row, :length].tolist(), outcome.decorations[row, :length].tolist())
    )


def _execute(programs: Programs, rows: np.ndarray) -> Outcome:
    """Run all programs; ``rows`` is described in :func:`cadmus.vm.kernel.run_batch`."""
    data = np.ascontiguousarray(programs.data).view()
    offsets = np.ascontiguousarray(programs.offsets).view()
    # Numba compiles separate code for writable arrays, so both are always read-only.
    data.flags.writeable = offsets.flags.writeable = False
    lengths = _lockstep_lengths(data, offsets)
    n = int(rows[-1])
    outcome = Outcome(
        true=np.empty(len(programs), np.bool_),
        count=np.empty(len(programs), np.int32),
        kind=np.zeros(n, np.uint8),
        length=np.zeros(n, np.uint8),
        values=np.zeros((n, isa.MAX_SEQUENCE_LENGTH), np.int32),
        decorations=np.zeros((n, isa.MAX_SEQUENCE_LENGTH), np.uint8),
    )
    in_step = np.flatnonzero(lengths)
    if len(in_step):
        lockstep.run(data, offsets, in_step, lengths[in_step], rows, outcome)
    if len(in_step) < len(programs):
        kernel.run_batch(data, offsets, np.flatnonzero(lengths == 0), rows, outcome)
    return outcome


def _lockstep_lengths(data: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return the length of each program that can run in lock step, 0 for the others: uint8, shape (n,)."""
    lengths = np.empty(len(offsets) - 1, np.uint8)
    position = _measure(data, offsets, lengths)
    if position < offsets[-1]:
        program = int(np.searchsorted(offsets, position, side="right")) - 1
        raise InputError(
            f"program {program}: unknown symbol {chr(data[position])!r} at position "
            f"{position - offsets[program] + 1}; `cadmus isa` lists the {isa.VOCABULARY_SIZE} instructions"
        )
    return lengths


# Bits that describe a byte; an instruction of a number program has none of them.
_IS_END, _NOT_IN_STEP, _UNKNOWN = 1, 2, 4
_BYTE_CLASS = np.where(
    opcodes.FAMILY == opcodes.UNKNOWN, _UNKNOWN, np.where(lockstep.ALLOWED, 0, _NOT_IN_STEP)
).astype(np.uint8)
_BYTE_CLASS[opcodes.END] = _IS_END


@jit
def _measure(data: np.ndarray, offsets: np.ndarray, lengths: np.ndarray) -> int:
    """Fill in ``lengths``; return the position of the first unknown symbol, ``offsets[-1]`` without one."""
    for i in range(len(lengths)):
        start: int = offsets[i]
        stop: int = offsets[i + 1]
        seen = 0
        for position in range(start, stop):
            seen |= _BYTE_CLASS[data[position]]
        if seen & _UNKNOWN:
            while _BYTE_CLASS[data[start]] != _UNKNOWN:
                start += 1
            return start
        if seen & _IS_END:
            # Instructions after the end do not count.
            end = start
            seen = 0
            while _BYTE_CLASS[data[end]] != _IS_END:
                seen |= _BYTE_CLASS[data[end]]
                end += 1
            stop = end
        lengths[i] = stop - start if seen == 0 and stop - start <= lockstep.LONGEST else 0
    return offsets[-1]
