"""Complex sequence operations: ``x=(1,2,3); len(select(x>1))==2`` is ``u1b2b3bE1>KL2=``."""

import numpy as np

from cadmus.programs import Programs, join
from cadmus.templates.draw import Candidates, Draw, answer, definition, rows_of, writable
from cadmus.vm import compiled


def advanced_sequences(draw: Draw, n: int) -> Candidates:
    """``[definition] sequence operation [question] answer``, to be completed from before the answer."""
    lengths = draw.dataset.templates.advanced_sequences.sequence_length

    def sequence(k: int) -> Programs:
        return draw.sequence(k, lengths)

    def nothing(k: int) -> Programs:
        return Programs(np.empty(0, np.uint8), np.zeros(k + 1, np.int64))

    compared = draw.mix(
        n,
        # Select by comparing, and by an explicit mask.
        lambda k: join(sequence(k), b"E", draw.digit(k), draw.choice(k, b"<>="), b"K"),
        lambda k: join(sequence(k), sequence(k), draw.choice(k, b"<>="), sequence(k), b"sK"),
        lambda k: join(sequence(k), draw.choice(k, b"SV"), draw.choice(k, b"SV")),
        lambda k: join(sequence(k), draw.choice(k, b"SV'~e!"), draw.choice(k, b"SV")),
        lambda k: join(sequence(k), sequence(k), draw.choice(k, b"c+-*xn")),
        # Map, filter and fold with a subroutine.
        lambda k: join(definition(join(draw.digit(k), draw.operator(k))), sequence(k), b"m"),
        lambda k: join(definition(join(draw.digit(k), draw.choice(k, b"<>=%"))), sequence(k), b"w"),
        lambda k: join(definition(join(draw.choice(k, b"+-*xn"))), sequence(k), draw.digit(k), b"l"),
    )
    question = draw.mix(
        n, nothing, lambda k: join(draw.choice(k, b"L$XNA")), lambda k: join(draw.digit(k, 0, 2), b"@")
    )
    # A fold leaves a number, of which nothing more is asked.
    is_sequence = compiled.execute(compared).kind == compiled.SEQUENCE
    prompt = join(compared, question.prefixes(question.lengths * is_sequence))
    outcome = compiled.execute(prompt)
    rows = writable(outcome)
    prompt, outcome = prompt.take(rows), rows_of(outcome, rows)
    return Candidates(join(prompt, answer(outcome)), prompt.lengths)
