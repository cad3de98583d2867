r"""Calling subroutines: a definition and its use, in either order, ``\41-*;9f55*2+=``."""

import numpy as np

from cadmus.programs import Programs, join
from cadmus.templates.draw import Candidates, Draw, definition, interleave, only_where
from cadmus.vm import compiled


def subroutines(draw: Draw, n: int) -> Candidates:
    """``definition argument call expression comparator`` or, the definition last, the same otherwise.

    To be completed from before the comparator when it comes last, else from before the definition.
    """
    defined, call = _one_argument(draw, n // 2), _two_arguments(draw, n - n // 2)
    which = draw.rng.permutation(np.repeat([0, 1], [n // 2, n - n // 2]))
    body = interleave(which, [defined[0], call[0]])
    use = interleave(which, [defined[1], call[1]])

    # The value of the call decides which expression stands beside it.
    outcome = compiled.execute(join(definition(body), use))
    low, high = draw.dataset.values.low, draw.dataset.values.high
    value = outcome.values[:, 0].astype(np.int64)
    rows = np.flatnonzero((outcome.kind == compiled.NUMBER) & (value >= low) & (value <= high))
    body, use, x, n = body.take(rows), use.take(rows), value[rows], len(rows)

    equal = draw.rng.random(n) < 1 / 3
    lengths = (1, 3, 5)
    y = np.where(equal, x, draw.values(n, lengths))
    comparator = np.where(equal, ord("="), draw.choice(n, b"<>")).astype(np.uint8)
    compared = join(use, draw.expression(y, lengths))
    defined_last = draw.rng.random(n) < 0.5
    first = only_where(definition(body), ~defined_last)
    last = only_where(definition(body), defined_last)
    programs = join(first, compared, comparator, last)
    prompt_length = programs.lengths - np.where(defined_last, last.lengths, 1)
    return Candidates(programs, prompt_length, x, y)


def _one_argument(draw: Draw, n: int) -> tuple[Programs, Programs]:
    """Bodies that take one argument, and their calls on a number."""
    body = draw.mix(
        n,
        lambda k: join(draw.digit(k), draw.operator(k)),
        lambda k: join(draw.digit(k), draw.digit(k), draw.operator(k), draw.operator(k)),
        lambda k: join(draw.choice(k, b"'B~a"), draw.digit(k), draw.operator(k)),
        lambda k: join(b"E", draw.digit(k), draw.operator(k), draw.operator(k)),
        # Recursion: step down until the condition fails.
        lambda k: join(draw.digit(k, 1, 9), b"-E", draw.digit(k), b">R"),
        lambda k: join(b"BE", draw.digit(k, 1, 9), b">R"),
    )
    argument = draw.mix(
        n, lambda k: join(draw.digit(k)), lambda k: draw.expression(draw.values(k, (3,)), (3,))
    )
    return body, join(argument, b"f")


def _two_arguments(draw: Draw, n: int) -> tuple[Programs, Programs]:
    """Bodies that take two arguments, and their calls on digits."""
    body = draw.mix(
        n,
        lambda k: join(draw.operator(k)),
        lambda k: join(draw.operator(k), draw.digit(k), draw.operator(k)),
        lambda k: join(draw.digit(k), draw.operator(k), draw.operator(k)),
        lambda k: join(draw.choice(k, b"os"), draw.operator(k)),
    )
    return body, join(draw.digit(n), draw.digit(n), b"F")
