"""Simple sequence operations: ``x=(1,2,3); x[0]==1`` is ``u1b2b3b0@1=``."""

from functools import partial

from cadmus.programs import Programs, Samples, join
from cadmus.templates.answers import answered
from cadmus.templates.draw import Draw


def basic_sequences(draw: Draw, n: int) -> Samples:
    """Draw ``sequence query answer``; the prompt ends before the answer."""
    lengths = draw.dataset.templates.basic_sequences.sequence_length
    sequence = partial(draw.sequence, lengths=lengths)

    def element(k: int) -> Programs:
        return draw.mix(
            k,
            lambda k: join(draw.digit(k, 0, lengths[1] - 1), b"@"),
            lambda k: join(draw.digit(k, 1, lengths[1]), b"~@"),  # from the end: -1 is the last
        )

    def aggregate(k: int) -> Programs:
        return join(draw.choice(k, b"L$XNA"))

    return answered(
        draw.mix(
            n,
            lambda k: join(sequence(k), element(k)),
            lambda k: join(sequence(k), aggregate(k)),
            lambda k: join(sequence(k), draw.literal(k), b"b"),
            lambda k: join(sequence(k), draw.literal(k), b"b", aggregate(k)),
            lambda k: join(sequence(k), sequence(k), b"c"),
            lambda k: join(sequence(k), sequence(k), b"c", aggregate(k)),
            # Arithmetic on an element or an aggregate.
            lambda k: join(sequence(k), element(k), draw.digit(k), draw.operator(k)),
            lambda k: join(sequence(k), aggregate(k), draw.digit(k), draw.operator(k)),
            lambda k: join(sequence(k), element(k), sequence(k), aggregate(k), draw.choice(k, b"+-*xn<>=")),
        )
    )
