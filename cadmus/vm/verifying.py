r"""The lenient metric of docs/grading.md, which the VM can check without knowing the right answer.

A completion is verified if the whole program is true, the completion ended and it drops no value. There are
two ways to drop a value: the instruction ``_``, and a result that is the same whatever the value is, such as
that of ``\1;f``, ``0*`` or ``1|``. The VM finds the latter: it executes the completion again with other
values in place of each that the prompt leaves.
"""

import numpy as np

from cadmus import isa
from cadmus.programs import Programs, join


def verified(prompts: Programs, completions: Programs, ended: np.ndarray) -> np.ndarray:
    """Tell which of n completions of prompts are verified: bool, shape (n,)."""
    # Numba takes half a second to import, and most commands do not verify.
    from cadmus.vm.compiled import are_true, ignore

    rows = np.flatnonzero(ended & ~drops(completions))  # cheap tests first; `ignore` executes many times
    rows = rows[are_true(join(prompts.take(rows), completions.take(rows)))]
    programs = join(prompts.take(rows), completions.take(rows))
    valid = np.zeros(len(ended), np.bool_)
    valid[rows] = ~ignore(programs, prompts.lengths[rows])
    return valid


def drops(completions: Programs) -> np.ndarray:
    """Tell which completions have the instruction ``_``: bool, shape (n,)."""
    so_far = np.append(0, np.cumsum(completions.data == ord(isa.DROP)))
    return np.diff(so_far[completions.offsets]) > 0
