"""Simple calculations: an expression compared with a digit, ``12+0>``."""

from cadmus.programs import join
from cadmus.templates.draw import Candidates, Draw, comparator


def basic_math(draw: Draw, n: int) -> Candidates:
    """``expression digit comparator``, to be completed from before the comparator."""
    numbers = draw.dataset.templates.basic_math
    made_of = numbers.expression_lengths, numbers.operators
    x = draw.values(n, *made_of)
    digit = draw.digit(n)
    prompt = join(draw.expression(x, *made_of), digit)
    y = digit.astype(int) - ord("0")
    return Candidates(join(prompt, comparator(x, y)), prompt.lengths, x, y)
