"""Numerical equality: two expressions of one value, ``941-*55*2+=``."""

from cadmus.programs import join
from cadmus.templates.draw import Candidates, Draw


def equality(draw: Draw, n: int) -> Candidates:
    """``expression expression =``, to be completed from before the comparator."""
    lengths = draw.dataset.templates.equality.expression_lengths
    x = draw.values(n, lengths)
    prompt = join(draw.expression(x, lengths), draw.expression(x, lengths))
    return Candidates(join(prompt, b"="), prompt.lengths, x, x)
