"""Greater than and less than: two expressions and ``<`` or ``>``."""

import numpy as np

from cadmus.programs import join
from cadmus.templates.draw import Candidates, Draw


def less_greater(draw: Draw, n: int) -> Candidates:
    """``expression expression comparator``, to be completed from before the comparator."""
    numbers = draw.dataset.templates.less_greater
    made_of = numbers.expression_lengths, numbers.operators
    x, y = draw.values(n, *made_of), draw.values(n, *made_of)
    prompt = join(draw.expression(x, *made_of), draw.expression(y, *made_of))
    # Of equal values neither holds, and the machine rejects what is written here.
    comparator = np.where(x < y, ord("<"), ord(">")).astype(np.uint8)
    return Candidates(join(prompt, comparator), prompt.lengths, x, y)
