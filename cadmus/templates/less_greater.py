"""Greater than and less than: two expressions and ``<`` or ``>``."""

import numpy as np

from cadmus.programs import join
from cadmus.templates.draw import Candidates, Draw


def less_greater(draw: Draw, n: int) -> Candidates:
    """``expression expression comparator``, to be completed from before the comparator."""
    numbers = draw.dataset.templates.less_greater
    x, y = draw.values(n, numbers), draw.values(n, numbers)
    # Of equal values neither holds, and the machine rejects what is written here.
    comparator = np.where(x < y, ord("<"), ord(">")).astype(np.uint8)
    programs = join(draw.expression(x, numbers), draw.expression(y, numbers), comparator)
    return Candidates(programs, programs.lengths - 1, x, y)
