"""Simple calculations: an expression compared with a digit, ``12+0>``."""

from cadmus.programs import join
from cadmus.templates.draw import Candidates, Draw


def basic_math(draw: Draw, n: int) -> Candidates:
    """``expression digit comparator``, to be completed from before the comparator."""
    lengths = draw.dataset.templates.basic_math.expression_lengths
    x = draw.values(n, lengths)
    digit = draw.digit(n)
    prompt = join(draw.expression(x, lengths), digit)
    y = digit.astype(int) - ord("0")
    return Candidates(join(prompt, draw.choice(n, b"<>=")), prompt.lengths, x, y)
