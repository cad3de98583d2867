"""The functions that apply_labels applies and complete_algorithm has found from examples."""

from cadmus.programs import Programs, join
from cadmus.templates.draw import Draw


def sequence_predicate(draw: Draw, n: int) -> Programs:
    """Bodies that tell sequences apart, leaving 1 or 0: ``L2>``."""
    return draw.mix(
        n,
        lambda k: join(b"L", draw.digit(k, 1, 4), draw.choice(k, b"<>=")),
        lambda k: join(b"$", draw.digit(k), draw.choice(k, b"<>")),
        lambda k: join(b"X", draw.digit(k, 2, 9), draw.choice(k, b"<>")),
        lambda k: join(b"N", draw.digit(k, 0, 6), draw.choice(k, b"<>")),
        lambda k: join(b"0@", draw.digit(k), draw.choice(k, b"<>")),
        lambda k: join(draw.choice(k, b"L$XN"), b"e"),
        # Is it sorted, is it a palindrome, is a digit among its elements?
        lambda k: join(b"E", draw.choice(k, b"SV"), b"Y"),
        lambda k: join(draw.digit(k), b"=$?"),
    )


def element_label(draw: Draw, n: int) -> Programs:
    """Bodies that give an integer a label from 0 to 9: ``5>``, ``3%``."""
    return draw.mix(
        n,
        lambda k: join(draw.digit(k), draw.choice(k, b"<>=")),
        lambda k: join(draw.digit(k, 2, 5), b"%"),
        lambda k: join(b"e", draw.choice(k, b"'?")),
        lambda k: join(draw.digit(k, 2, 4), b"/"),
    )


def number_function(draw: Draw, n: int) -> Programs:
    """Bodies that make a number of a number: ``3+``, ``2*1-``."""
    return draw.mix(
        n,
        lambda k: join(draw.digit(k, 1, 9), draw.operator(k)),
        lambda k: join(draw.digit(k, 2, 5), b"*", draw.digit(k, 1, 9), draw.choice(k, b"+-")),
        lambda k: join(b"E", draw.digit(k, 1, 9), draw.choice(k, b"+-"), b"*"),
    )


def sequence_function(draw: Draw, n: int) -> Programs:
    """Bodies that make a number of a sequence: ``$``, ``X2*``."""
    return draw.mix(
        n,
        lambda k: join(draw.choice(k, b"L$XN")),
        lambda k: join(draw.choice(k, b"L$XN"), draw.digit(k, 1, 9), draw.choice(k, b"+-*")),
        lambda k: join(b"EXsN", draw.choice(k, b"+-*")),
        lambda k: join(b"E", draw.digit(k, 1, 8), draw.choice(k, b"<>"), draw.choice(k, b"$$")),
    )
