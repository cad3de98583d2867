"""Parts of programs, found from the effects of their instructions without running them."""

import numba
import numpy as np

from cadmus import isa
from cadmus.errors import Defect
from cadmus.programs import Programs

_INPUTS, _OUTPUTS = np.zeros(128, np.int64), np.zeros(128, np.int64)
for _row in isa.INSTRUCTIONS:
    _INPUTS[ord(_row.symbol)], _OUTPUTS[ord(_row.symbol)] = _row.inputs, _row.outputs


def second_expressions(programs: Programs) -> np.ndarray:
    """Return the position at which the second expression of each comparison starts: int64, shape (n,).

    It is the shortest run of instructions before the comparator that leaves exactly one value and pops none
    from below.

    >>> second_expressions(Programs.from_strings(["941-*55*2+="])).tolist()
    [5]
    """
    starts = _second_expressions(programs.data, programs.offsets)
    if (starts < 1).any():
        (program,) = programs.take(np.flatnonzero(starts < 1)[:1]).to_strings()
        raise Defect(f"{program!r} does not end in an expression and a comparator")
    return starts


def is_expression(instructions: str) -> bool:
    """Tell whether instructions leave exactly one value and take none from the stack.

    >>> is_expression("55*2+"), is_expression("2+"), is_expression("55")
    (True, False, False)
    """
    data = np.frombuffer(instructions.encode("ascii"), np.uint8)
    return bool(_leaves_one_value(data, 0, len(data)))


@numba.njit(cache=True)
def _leaves_one_value(data: np.ndarray, start: int, stop: int) -> bool:  # pragma: no cover - compiled
    depth = 0
    for k in range(start, stop):
        if depth < _INPUTS[data[k]]:
            return False
        depth += _OUTPUTS[data[k]] - _INPUTS[data[k]]
    return depth == 1


@numba.njit(cache=True)
def _second_expressions(data: np.ndarray, offsets: np.ndarray) -> np.ndarray:  # pragma: no cover - compiled
    starts = np.zeros(len(offsets) - 1, np.int64)
    for i in range(len(starts)):
        end = offsets[i + 1] - 1
        for start in range(end - 1, offsets[i], -1):
            if _leaves_one_value(data, start, end):
                starts[i] = start - offsets[i]
                break
    return starts
