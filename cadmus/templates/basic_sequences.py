"""Simple sequence operations: ``x=(1,2,3); x[0]==1`` is ``u1b2b3b0@1=``."""

from cadmus.programs import join
from cadmus.templates.draw import Candidates, Draw, answer, rows_of, writable
from cadmus.vm import compiled


def basic_sequences(draw: Draw, n: int) -> Candidates:
    """``sequence question answer``, to be completed from before the answer."""
    lengths = draw.dataset.templates.basic_sequences.sequence_length
    question = draw.mix(
        n,
        lambda k: join(draw.digit(k, 0, lengths[1] - 1), b"@"),
        lambda k: join(draw.digit(k, 1, lengths[1]), b"~@"),
        lambda k: join(draw.choice(k, b"L$XN")),
        lambda k: join(draw.choice(k, b"L$XN")),
        lambda k: join(draw.digit(k), b"b"),
    )
    prompt = join(draw.sequence(n, lengths), question)
    outcome = compiled.execute(prompt)
    rows = writable(outcome)
    prompt, outcome = prompt.take(rows), rows_of(outcome, rows)
    return Candidates(join(prompt, answer(outcome)), prompt.lengths)
