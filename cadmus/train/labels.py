"""Labels for state supervision: the top of the VM's stack after every token.

The label of a token is what the program up to there leaves on top of the stack when it is executed.
"""

import numpy as np

from cadmus.programs import Programs
from cadmus.vm.compiled import execute
from cadmus.vm.outcome import NUMBER, SEQUENCE

LARGEST = 40
"""Integers from -LARGEST to LARGEST are classes of their own."""
_NO_VALUE, _SEQUENCE, _OTHER_NUMBER, _FIRST_NUMBER = range(4)
STATE_CLASSES = _FIRST_NUMBER + 2 * LARGEST + 1
"""Labels: no value or NAN, a sequence, any larger integer, and each small one."""


def state_labels(programs: Programs) -> np.ndarray:
    """Return the label of every instruction: int64, one per byte of ``programs.data``.

    All prefixes are executed in one call of the compiled VM.
    """
    prefixes, _, _ = programs.all_prefixes()
    outcome = execute(prefixes)
    value = outcome.values[:, 0]
    labels = np.full(len(prefixes), _NO_VALUE, np.int64)
    labels[outcome.kind == SEQUENCE] = _SEQUENCE
    number = outcome.kind == NUMBER
    small = number & (abs(value) <= LARGEST)
    labels[number] = _OTHER_NUMBER
    labels[small] = _FIRST_NUMBER + LARGEST + value[small]
    return labels
