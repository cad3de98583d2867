"""Greater than and less than: two expressions and ``<`` or ``>``."""

from cadmus.programs import join
from cadmus.templates.draw import Candidates, Draw


def less_greater(draw: Draw, n: int) -> Candidates:
    """``expression expression comparator``, to be completed from before the comparator."""
    lengths = draw.dataset.templates.less_greater.expression_lengths
    x, y = draw.values(n, lengths), draw.values(n, lengths)
    prompt = join(draw.expression(x, lengths), draw.expression(y, lengths))
    return Candidates(join(prompt, draw.choice(n, b"<>")), prompt.lengths, x, y)
