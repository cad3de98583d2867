"""Numerical equality: two expressions of one value, ``941-*55*2+=``."""

import numpy as np

from cadmus.programs import Samples, join
from cadmus.templates.draw import Draw


def equality(draw: Draw, n: int) -> Samples:
    """Draw ``expression expression =`` with two different expressions; the prompt ends after the first."""
    fields = draw.dataset.templates.equality
    x = draw.values(n, fields)
    first, second = draw.expression(x, fields), draw.expression(x, fields)
    different = np.flatnonzero(~first.equal(second))
    first, second, x = first.take(different), second.take(different), x[different]
    return Samples(join(first, second, b"="), first.lengths, x, x)
