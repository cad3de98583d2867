"""Numerical equality: two expressions of one value, ``941-*55*2+=``."""

from cadmus.programs import join
from cadmus.templates.draw import Candidates, Draw


def equality(draw: Draw, n: int) -> Candidates:
    """``expression expression =``, to be completed from before the comparator."""
    numbers = draw.dataset.templates.equality
    x = draw.values(n, numbers)
    programs = join(draw.expression(x, numbers), draw.expression(x, numbers), b"=")
    return Candidates(programs, programs.lengths - 1, x, x)
