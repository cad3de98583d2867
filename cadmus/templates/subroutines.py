r"""Calling subroutines: definitions and their use, in any order, ``\41-*;9f55*2+=``."""

from functools import partial

import numpy as np

from cadmus.config import ExpressionTemplate
from cadmus.programs import Programs, Samples, join
from cadmus.templates.draw import Draw, comparator, definition, nothing, only_where
from cadmus.vm import compiled
from cadmus.vm.values import NUMBER

BEFORE, BETWEEN, AFTER = range(3)
"""Places of a definition: before the call, between it and the expression, after the comparator."""

COMPARED = ExpressionTemplate(expression_lengths=[1, 3, 5])
"""Expressions that the value of the call is compared with."""
ARGUMENT = ExpressionTemplate(expression_lengths=[3])
"""Expressions that, besides digits, are arguments of a call."""


def subroutines(draw: Draw, n: int) -> Samples:
    """Draw ``call expression comparator`` with one to three definitions before, between and after.

    The prompt ends before the last definition if that comes last, else before the comparator. A definition
    that comes last is asked for: the comparison before it is then an equality, which few functions meet.
    """
    *bodies, call = _calls(draw, n)
    definitions = [only_where(definition(body), body.lengths > 0) for body in bodies]

    outcome = compiled.execute(join(*definitions, call))
    x = outcome.values[:, 0].astype(np.int64)
    fits = (outcome.kind == NUMBER) & draw.expressible(x, COMPARED)
    *definitions, call = (piece.take(fits) for piece in (*definitions, call))
    x, n = x[fits], int(fits.sum())
    # Half of the programs ask for a definition, the others for the comparator.
    last = draw.rng.choice([BEFORE, BETWEEN, AFTER, AFTER], size=n)
    # Of the others, half of the expressions have the value of the call.
    equal = (last == AFTER) | (draw.rng.random(n) < 0.5)
    y = np.where(equal, x, draw.values(n, COMPARED))
    # Not after the last definition, which is the one that may be asked for.
    earlier = np.minimum(draw.rng.integers(3, size=(2, n)), last)
    numbers = (*np.sort(earlier, axis=0), last)

    def definitions_at(where: int) -> Programs:
        pairs = zip(definitions, numbers, strict=True)
        return join(*(only_where(definition, number == where) for definition, number in pairs))

    compared = join(call, definitions_at(BETWEEN), draw.expression(y, COMPARED), comparator(x, y))
    programs = join(definitions_at(BEFORE), compared, definitions_at(AFTER))
    prompt_length = programs.lengths - np.where(last == AFTER, definitions[-1].lengths, 1)
    return Samples(programs, prompt_length, x, y)


def _calls(draw: Draw, n: int) -> tuple[Programs, ...]:
    """Draw the bodies of three subroutines, the missing ones first and empty, and a call."""
    one, two = partial(_one_argument, draw), partial(_two_arguments, draw)

    def x(k: int) -> Programs:
        return draw.mix(
            k,
            *[lambda k: join(draw.digit(k))] * 2,  # two of three arguments are digits
            lambda k: draw.expression(draw.values(k, ARGUMENT), ARGUMENT),
        )

    def xy(k: int) -> Programs:
        return join(draw.digit(k), draw.digit(k))

    def update(k: int) -> Programs:
        return join(draw.digit(k, 1, 9), draw.operator(k))

    return draw.mix_parts(
        n,
        # Weights: nearly half of the programs have a single subroutine.
        *[lambda k: (nothing(k), nothing(k), one(k), join(x(k), b"f"))] * 6,
        *[lambda k: (nothing(k), nothing(k), two(k), join(xy(k), b"F"))] * 4,
        # Composition, and an operator on two results.
        lambda k: (nothing(k), one(k), one(k), join(x(k), b"fg")),
        lambda k: (nothing(k), one(k), one(k), join(x(k), b"f", x(k), b"g", draw.operator(k))),
        lambda k: (nothing(k), one(k), two(k), join(xy(k), b"Gf")),
        lambda k: (nothing(k), two(k), one(k), join(xy(k), b"Fg")),
        lambda k: (nothing(k), one(k), two(k), join(x(k), b"f", draw.digit(k), b"G")),
        lambda k: (one(k), one(k), one(k), join(x(k), b"fgh")),
        # A subroutine that calls one defined before or after it.
        lambda k: (nothing(k), one(k), join(b"f", update(k)), join(x(k), b"g")),
        lambda k: (nothing(k), join(update(k), b"g"), one(k), join(x(k), b"f")),
        lambda k: (nothing(k), two(k), join(draw.digit(k), b"F"), join(x(k), b"g")),
        lambda k: (nothing(k), one(k), join(draw.operator(k), b"f"), join(xy(k), b"G")),
        lambda k: (one(k), one(k), join(b"Efsg", draw.operator(k)), join(x(k), b"h")),
    )


def _one_argument(draw: Draw, n: int) -> Programs:
    """Draw bodies with one argument; a quarter recurse until a condition fails."""
    return draw.mix(
        n,
        lambda k: join(draw.digit(k), draw.operator(k)),
        lambda k: join(draw.digit(k), draw.operator(k), draw.digit(k), draw.operator(k)),
        lambda k: join(draw.digit(k), draw.digit(k), draw.operator(k), draw.operator(k)),
        lambda k: join(draw.choice(k, b"'B~a"), draw.digit(k), draw.operator(k)),
        lambda k: join(b"E", draw.digit(k), draw.operator(k), draw.operator(k)),
        # A conditional.
        lambda k: join(b"E", draw.digit(k), draw.choice(k, b"<>"), draw.digit(k), b"ri"),
        *[lambda k: _recursion(draw, k)] * 2,
    )


def _recursion(draw: Draw, n: int) -> Programs:
    return draw.mix(
        n,
        # Count down (a remainder if the step exceeds the bound by one), count up, halve, double.
        lambda k: join(draw.digit(k, 1, 9), b"-E", draw.digit(k), b">R"),
        lambda k: join(draw.digit(k, 1, 9), b"+E", draw.digit(k), b"<R"),
        lambda k: join(b"BE", draw.digit(k, 1, 9), b">R"),
        lambda k: join(b"2*E", draw.digit(k, 1, 9), b"<R"),
        # A Collatz sequence: halve an even number, else add or subtract a step.
        lambda k: join(
            b"EeoBr", draw.choice(k, b"123"), draw.choice(k, b"+-"), b"iE", draw.digit(k, 3, 9), b">R"
        ),
    )


def _two_arguments(draw: Draw, n: int) -> Programs:
    """Draw bodies with two arguments."""
    return draw.mix(
        n,
        lambda k: join(draw.operator(k)),
        lambda k: join(draw.operator(k), draw.digit(k), draw.operator(k)),
        lambda k: join(draw.digit(k), draw.operator(k), draw.operator(k)),
        lambda k: join(draw.choice(k, b"os"), draw.operator(k)),
        lambda k: join(b"o", draw.operator(k), draw.operator(k)),
        lambda k: join(draw.choice(k, b"<>="), draw.digit(k), draw.digit(k), b"i"),
    )
