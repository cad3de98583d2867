"""Numerical equality: two expressions of one value, ``941-*55*2+=``."""

import numpy as np

from cadmus.programs import Samples, join
from cadmus.templates.draw import Draw


def equality(draw: Draw, n: int) -> Samples:
    """Draw ``expression expression =``; the prompt ends after the first, which the second does not repeat."""
    fields = draw.dataset.templates.equality
    x = draw.values(n, fields)
    first, second = draw.expression(x, fields), draw.expression(x, fields)
    # A single literal is in many expressions without repeating it.
    repeated = second.contain(first) & ((first.lengths > 1) | (second.lengths == 1))
    different = np.flatnonzero(~repeated)
    first, second, x = first.take(different), second.take(different), x[different]
    return Samples(join(first, second, b"="), first.lengths, x, x)
