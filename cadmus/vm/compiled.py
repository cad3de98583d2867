"""The compiled VM as Python calls it, for batches of programs; :mod:`cadmus.vm.kernel` interprets them."""

from itertools import islice, pairwise

import numpy as np

from cadmus import isa
from cadmus.errors import InputError
from cadmus.programs import Programs, offsets_of
from cadmus.vm import kernel, opcodes
from cadmus.vm.reference import Number, Sequence, Value
from cadmus.vm.values import NAN, NUMBER, Outcome

_KNOWN = opcodes.FAMILY != opcodes.UNKNOWN


def are_true(programs: Programs) -> np.ndarray:
    """Tell which programs are true: bool, shape (n,)."""
    return execute(programs, np.zeros(len(programs) + 1, np.int64)).true


def same_outputs(programs: Programs, others: Programs) -> np.ndarray:
    """Return whether each program leaves the same outputs as the other: bool, shape (n,)."""
    counts = [execute(batch).count for batch in (programs, others)]
    same = counts[0] == counts[1]
    rows = np.flatnonzero(same & (counts[0] > 0))
    bounds = offsets_of(counts[0][rows])
    ours, theirs = (execute(batch.take(rows), bounds) for batch in (programs, others))
    equal = (np.column_stack(ours[2:]) == np.column_stack(theirs[2:])).all(1)
    if len(rows):
        same[rows] = np.logical_and.reduceat(equal, bounds[:-1])
    return same


def ignore(programs: Programs, cuts: np.ndarray) -> np.ndarray:
    """Tell which true programs ignore a value that their first ``cuts`` (shape (n,)) instructions leave.

    Bool, shape (n,); see :func:`cadmus.vm.kernel.find_ignored`.
    """
    ignored = np.empty(len(programs), np.bool_)
    kernel.find_ignored(*_checked(programs), cuts.astype(np.int64), ignored)
    return ignored


def count_executed(programs: Programs) -> np.ndarray:
    """Return how many instructions each program executes, with those inside calls: int64, shape (n,)."""
    executed = np.empty(len(programs), np.int64)
    kernel.count_executed(*_checked(programs), executed)
    return executed


def leave_nan(programs: Programs) -> np.ndarray:
    """Tell which programs leave a NAN: bool, shape (n,)."""
    bounds = offsets_of(execute(programs).count)
    so_far = np.append(0, np.cumsum(execute(programs, bounds).kind == NAN))
    return np.diff(so_far[bounds]) > 0


def outputs(programs: Programs) -> list[list[Value]]:
    """Return all outputs of each program, as values of the reference VM."""
    bounds = offsets_of(execute(programs).count)
    outcome = execute(programs, bounds)
    columns = (outcome.kind, outcome.length, outcome.values, outcome.decorations)
    values = [_value(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]
    return [values[start:stop] for start, stop in pairwise(bounds.tolist())]


def _value(kind: int, length: int, values: list[int], decorations: list[int]) -> Value:
    if kind == NAN:
        return None
    numbers = map(Number, values, decorations)
    return next(numbers) if kind == NUMBER else Sequence(islice(numbers, length))


def execute(programs: Programs, rows: np.ndarray | None = None) -> Outcome:
    """Return the truth, the number of outputs and the top output of each program.

    With ``rows``, there are as many outputs of each as :func:`cadmus.vm.kernel.run_batch` tells.
    """
    if rows is None:
        rows = np.arange(len(programs) + 1, dtype=np.int64)
    data, offsets = _checked(programs)
    n = int(rows[-1])
    outcome = Outcome(
        true=np.empty(len(programs), np.bool_),
        count=np.empty(len(programs), np.int32),
        kind=np.zeros(n, np.uint8),
        length=np.zeros(n, np.uint8),
        values=np.zeros((n, isa.MAX_SEQUENCE_LENGTH), np.int32),
        decorations=np.zeros((n, isa.MAX_SEQUENCE_LENGTH), np.uint8),
    )
    kernel.run_batch(data, offsets, rows, outcome)
    return outcome


def _checked(programs: Programs) -> tuple[np.ndarray, np.ndarray]:
    """Return the data and offsets of programs, which have known symbols only."""
    data = np.ascontiguousarray(programs.data).view()
    offsets = np.ascontiguousarray(programs.offsets).view()
    # Numba compiles separate code for writable arrays, so both are always read-only.
    data.flags.writeable = offsets.flags.writeable = False
    known = _KNOWN[data]
    if not known.all():
        position = int(known.argmin())
        program = int(np.searchsorted(offsets, position, side="right")) - 1
        raise InputError(
            f"program {program}: unknown symbol {chr(data[position])!r} at position "
            f"{position - offsets[program] + 1}; `cadmus isa` lists the {isa.VOCABULARY_SIZE} instructions"
        )
    return data, offsets
