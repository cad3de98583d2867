"""Simple calculations: an expression compared with a digit, ``12+0>``."""

import numpy as np

from cadmus.programs import Samples, join
from cadmus.templates.draw import Draw, comparator, without_majority


def basic_math(draw: Draw, n: int) -> Samples:
    """Draw ``expression digit comparator``; the prompt ends before the comparator.

    No comparator holds in more than half of the programs.
    """
    fields = draw.dataset.templates.basic_math
    x = draw.values(n, fields)
    digit = draw.digit(n)
    y = digit.astype(np.int64) - ord("0")
    answer = comparator(x, y)
    # Else one comparator solves 58% (log: templates without shortcuts).
    rows = without_majority(draw, answer)
    programs = join(draw.expression(x[rows], fields), digit[rows], answer[rows])
    return Samples(programs, programs.lengths - 1, x[rows], y[rows])
