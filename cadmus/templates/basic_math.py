"""Simple calculations: an expression compared with a digit, ``12+0>``."""

import numpy as np

from cadmus.programs import join
from cadmus.templates.draw import Candidates, Draw, comparator


def basic_math(draw: Draw, n: int) -> Candidates:
    """``expression digit comparator``, to be completed from before the comparator."""
    numbers = draw.dataset.templates.basic_math
    x = draw.values(n, numbers)
    digit = draw.digit(n)
    y = digit.astype(np.int64) - ord("0")
    programs = join(draw.expression(x, numbers), digit, comparator(x, y))
    return Candidates(programs, programs.lengths - 1, x, y)
