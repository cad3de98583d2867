"""Greater than and less than: two expressions and ``<`` or ``>``."""

import numpy as np

from cadmus.programs import Samples, join
from cadmus.templates.draw import Draw


def less_greater(draw: Draw, n: int) -> Samples:
    """Draw ``expression expression comparator``; the prompt ends before the comparator."""
    fields = draw.dataset.templates.less_greater
    x, y = draw.values(n, fields), draw.values(n, fields)
    # For equal values both comparators are false, and the sampler drops the candidate.
    comparator = np.where(x < y, ord("<"), ord(">")).astype(np.uint8)
    programs = join(draw.expression(x, fields), draw.expression(y, fields), comparator)
    return Samples(programs, programs.lengths - 1, x, y)
