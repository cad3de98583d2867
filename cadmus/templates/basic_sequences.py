"""Simple sequence operations: ``x=(1,2,3); x[0]==1`` is ``u1b2b3b0@1=``."""

from cadmus.programs import Programs, join
from cadmus.templates.draw import Candidates, Draw, answered


def basic_sequences(draw: Draw, n: int) -> Candidates:
    """``sequence question answer``, to be completed from before the answer."""
    lengths = draw.dataset.templates.basic_sequences.sequence_length

    def sequence(k: int) -> Programs:
        return draw.sequence(k, lengths)

    def element(k: int) -> Programs:
        return draw.mix(
            k,
            lambda k: join(draw.digit(k, 0, lengths[1] - 1), b"@"),
            lambda k: join(draw.digit(k, 1, lengths[1]), b"~@"),
        )

    def measured(k: int) -> Programs:
        return join(draw.choice(k, b"L$XNA"))

    return answered(
        draw.mix(
            n,
            lambda k: join(sequence(k), element(k)),
            lambda k: join(sequence(k), measured(k)),
            lambda k: join(sequence(k), draw.literal(k), b"b"),
            lambda k: join(sequence(k), draw.literal(k), b"b", measured(k)),
            lambda k: join(sequence(k), sequence(k), b"c"),
            lambda k: join(sequence(k), sequence(k), b"c", measured(k)),
            # The element or the measure is calculated with.
            lambda k: join(sequence(k), element(k), draw.digit(k), draw.operator(k)),
            lambda k: join(sequence(k), measured(k), draw.digit(k), draw.operator(k)),
            lambda k: join(sequence(k), element(k), sequence(k), measured(k), draw.choice(k, b"+-*xn<>=")),
        )
    )
