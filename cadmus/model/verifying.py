"""The lenient metric of docs/grading.md, which the VM can check without knowing the right answer."""

import numpy as np

from cadmus import isa
from cadmus.programs import Programs


def verified(programs: Programs, completions: Programs, ended: np.ndarray) -> np.ndarray:
    """Tell which of n whole programs, with their completions, are verified: bool, shape (n,)."""
    # Numba takes half a second to import, and most commands do not verify.
    from cadmus.vm.compiled import verdicts

    return verdicts(programs) & ended & ~drops(completions)


def drops(completions: Programs) -> np.ndarray:
    """Tell which completions have the instruction ``_``: bool, shape (n,)."""
    so_far = np.append(0, np.cumsum(completions.data == ord(isa.DROP)))
    return np.diff(so_far[completions.offsets]) > 0
