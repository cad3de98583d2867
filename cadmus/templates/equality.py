"""Numerical equality: two expressions of one value, ``941-*55*2+=``."""

from cadmus.programs import Samples, join
from cadmus.templates.draw import Draw


def equality(draw: Draw, n: int) -> Samples:
    """Draw ``expression expression =``; the prompt ends before the comparator."""
    fields = draw.dataset.templates.equality
    x = draw.values(n, fields)
    programs = join(draw.expression(x, fields), draw.expression(x, fields), b"=")
    return Samples(programs, programs.lengths - 1, x, x)
