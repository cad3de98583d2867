"""Simple calculations: an expression compared with a digit, ``12+0>``."""

import numpy as np

from cadmus.programs import Samples, join
from cadmus.templates.draw import Draw, comparator


def basic_math(draw: Draw, n: int) -> Samples:
    """Draw ``expression digit comparator``; the prompt ends before the comparator."""
    fields = draw.dataset.templates.basic_math
    x = draw.values(n, fields)
    digit = draw.digit(n)
    y = digit.astype(np.int64) - ord("0")
    programs = join(draw.expression(x, fields), digit, comparator(x, y))
    return Samples(programs, programs.lengths - 1, x, y)
