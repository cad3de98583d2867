"""Numerical equality: two expressions of one value, ``941-*55*2+=``."""

from cadmus.programs import join
from cadmus.templates.draw import Candidates, Draw


def equality(draw: Draw, n: int) -> Candidates:
    """``expression expression =``, to be completed from before the comparator."""
    numbers = draw.dataset.templates.equality
    made_of = numbers.expression_lengths, numbers.operators
    x = draw.values(n, *made_of)
    prompt = join(draw.expression(x, *made_of), draw.expression(x, *made_of))
    return Candidates(join(prompt, b"="), prompt.lengths, x, x)
