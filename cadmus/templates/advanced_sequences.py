"""Complex sequence operations: ``x=(1,2,3); len(select(x>1))==2`` is ``u1b2b3bE1>KL2=``."""

from functools import partial

from cadmus.programs import Programs, Samples, join
from cadmus.templates.answers import answered
from cadmus.templates.draw import Draw, definition, nothing
from cadmus.templates.functions import NUMBER_FUNCTION, NUMBER_PREDICATE, PAIR_FUNCTION, SEQUENCE_CHANGE


def advanced_sequences(draw: Draw, n: int) -> Samples:
    """Draw ``[definition] sequence operation [query] answer``; the prompt ends before the answer."""
    lengths = draw.dataset.templates.advanced_sequences.sequence_length
    sequence = partial(draw.sequence, lengths=lengths)

    def compare(k: int) -> Programs:
        return join(draw.digit(k), draw.choice(k, b"<>="))

    def changed(k: int) -> Programs:
        return draw.mix(
            k,
            # Select by a comparison, by two of them, by another sequence.
            lambda k: join(sequence(k), b"E", compare(k), b"K"),
            lambda k: join(sequence(k), b"EE", compare(k), b"s", compare(k), draw.choice(k, b"&|"), b"K"),
            lambda k: join(*draw.sequences(k, lengths, 2), compare(k), b"K"),
            # Order, element-wise arithmetic and logic.
            lambda k: join(sequence(k), SEQUENCE_CHANGE.draw(draw, k)),
            lambda k: join(sequence(k), draw.choice(k, b"SV!?'B~ae"), draw.choice(k, b"SV'B~a")),
            lambda k: join(*draw.sequences(k, lengths, 2), draw.choice(k, b"+-*/%xn<>=&|")),
            lambda k: join(sequence(k), sequence(k), b"c", draw.choice(k, b"SV")),
            # Map and filter.
            lambda k: join(definition(NUMBER_FUNCTION.draw(draw, k)), sequence(k), b"m"),
            lambda k: join(definition(NUMBER_PREDICATE.draw(draw, k)), sequence(k), b"w"),
            # Decorate the elements, reorder them and, in the last, read the decorations.
            lambda k: join(sequence(k), b"E", compare(k), b":", draw.choice(k, b"SV")),
            lambda k: join(*draw.sequences(k, lengths, 2), b"3%:", draw.choice(k, b"SV"), b'"'),
        )

    def query(k: int) -> Programs:
        return draw.mix(
            k,
            nothing,
            lambda k: join(draw.choice(k, b"L$XNA")),
            lambda k: join(draw.digit(k, 0, 2), b"@"),
            lambda k: join(b"E", draw.choice(k, b"SV"), b"Y"),
        )

    return answered(
        draw.mix(
            n,
            *[lambda k: join(changed(k), query(k))] * 6,  # six of eight; mix draws evenly
            # Folds; the second drops the accumulator, so that the last element decides.
            lambda k: join(definition(PAIR_FUNCTION.draw(draw, k)), sequence(k), draw.digit(k), b"l"),
            lambda k: join(
                definition(join(b"s_", draw.digit(k), draw.operator(k))), sequence(k), draw.digit(k), b"l"
            ),
        )
    )
