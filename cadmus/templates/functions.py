"""A grammar of functions that change and label sequences, and that induction infers from examples.

Each function draws the bodies of ``n`` subroutines at once.
"""

from cadmus.programs import Programs, join
from cadmus.templates.draw import Draw, nothing


def number_predicate(draw: Draw, n: int) -> Programs:
    """Draw predicates on a number, which return 1 or 0: ``5>``, ``3%1=``, ``3/e``, ``E2>s7<&``."""
    return draw.mix(
        n,
        lambda k: _comparison(draw, k),
        lambda k: _comparison(draw, k),
        lambda k: join(draw.digit(k, 2, 5), b"%", draw.digit(k, 0, 2), b"="),
        lambda k: join(draw.digit(k, 1, 9), draw.choice(k, b"+-*/"), b"e"),
        lambda k: join(b"E", _comparison(draw, k), b"s", _comparison(draw, k), draw.choice(k, b"&|")),
    )


def number_label(draw: Draw, n: int) -> Programs:
    """Draw labels from 0 to 9 of a number: ``3%``, ``4/``, ``5>``, ``E5>2ri``."""
    return draw.mix(
        n,
        lambda k: number_predicate(draw, k),
        lambda k: join(draw.digit(k, 2, 9), b"%"),
        lambda k: join(draw.digit(k, 2, 4), b"/"),
        lambda k: join(_comparison(draw, k), draw.digit(k), b"*"),
        lambda k: join(_comparison(draw, k), draw.digit(k), draw.digit(k), b"i"),
        lambda k: join(draw.choice(k, b"ae'"), draw.digit(k, 2, 9), b"n"),
    )


def number_function(draw: Draw, n: int) -> Programs:
    """Draw functions from a number to a number: ``3+``, ``2*1-``, ``E5>9ri``."""
    return draw.mix(
        n,
        lambda k: join(draw.digit(k, 1, 9), draw.operator(k)),
        lambda k: join(draw.digit(k, 2, 5), b"*", draw.digit(k, 1, 9), draw.choice(k, b"+-")),
        lambda k: join(b"E", draw.digit(k, 1, 9), draw.choice(k, b"+-"), b"*"),
        lambda k: join(draw.digit(k, 1, 9), b"-", draw.choice(k, b"Ba~'")),
        lambda k: join(draw.digit(k, 1, 5), b"x", draw.digit(k, 5, 9), b"n"),
        # Conditionals: a constant if the comparison holds; a changed argument if it is even.
        lambda k: join(b"E", _comparison(draw, k), draw.digit(k), b"ri"),
        lambda k: join(b"Eeo", draw.choice(k, b"B'~"), b"ri"),
    )


def pair_function(draw: Draw, n: int) -> Programs:
    """Draw functions from two numbers to a number, which also fold sequences: ``+``, ``2*+``, ``o-a``."""
    return draw.mix(
        n,
        lambda k: join(draw.choice(k, b"+-*xn")),
        lambda k: join(draw.digit(k, 1, 9), draw.choice(k, b"+-*"), draw.choice(k, b"+-xn")),
        lambda k: join(b"s", draw.digit(k, 2, 5), b"*", draw.choice(k, b"+-xn")),
        lambda k: join(b"o", draw.choice(k, b"+-*"), draw.choice(k, b"+-xn")),
        lambda k: join(draw.choice(k, b"+-"), draw.choice(k, b"a~'B")),
        lambda k: join(draw.choice(k, b"<>="), draw.digit(k, 1, 9), draw.choice(k, b"+*")),
    )


def sequence_predicate(draw: Draw, n: int) -> Programs:
    """Draw predicates on a sequence, which return 1 or 0: ``L2>``, ``ESY``, ``7=$?``."""
    return draw.mix(
        n,
        # Length, sum, maximum, minimum, the first and the last element.
        lambda k: join(b"L", draw.digit(k, 1, 4), draw.choice(k, b"<>=")),
        lambda k: join(b"$", draw.digit(k, 4, 9), draw.digit(k), b"+", draw.choice(k, b"<>")),
        lambda k: join(b"X", draw.digit(k, 4, 9), draw.choice(k, b"<>")),
        lambda k: join(b"N", draw.digit(k, 1, 5), draw.choice(k, b"<>")),
        lambda k: join(draw.choice(k, b"0Z"), b"@", draw.digit(k, 2, 8), draw.choice(k, b"<>")),
        lambda k: join(draw.choice(k, b"L$XN"), b"e"),
        lambda k: join(b"E", draw.choice(k, b"L$XN"), b"s", draw.choice(k, b"L$XN"), draw.choice(k, b"<>=")),
        # Order: ascending or a palindrome, descending, first against last, maximum at an end.
        lambda k: join(b"E", draw.choice(k, b"SSV"), b"Y"),
        lambda k: join(nothing(k), b"ESVY"),
        lambda k: join(b"E0@sZ@", draw.choice(k, b"<>=")),
        lambda k: join(b"EX", b"s", draw.choice(k, b"0Z"), b"@="),
        # Membership; a condition that all elements meet, that any meets, that some number meets.
        lambda k: join(draw.digit(k), b"=$", draw.choice(k, b"?!")),
        lambda k: join(_comparison(draw, k), draw.choice(k, b"A$"), draw.choice(k, b"?!")),
        lambda k: join(_comparison(draw, k), b"$", draw.digit(k, 1, 2), draw.choice(k, b"<>=")),
        lambda k: join(draw.choice(k, b"e?"), draw.choice(k, b"A$"), b"?"),
        lambda k: join(b"E", _comparison(draw, k), b"s", _comparison(draw, k), draw.choice(k, b"&|"), b"$?"),
    )


def sequence_function(draw: Draw, n: int) -> Programs:
    """Draw functions from a sequence to a number: ``$``, ``X2*``, ``E5>*$``."""
    return draw.mix(
        n,
        lambda k: join(draw.choice(k, b"L$XN")),
        lambda k: join(draw.choice(k, b"L$XN"), draw.digit(k, 1, 9), draw.choice(k, b"+-*%")),
        lambda k: join(b"E", draw.choice(k, b"L$XN"), b"s", draw.choice(k, b"L$XN"), draw.operator(k)),
        lambda k: join(b"E0@sZ@", draw.choice(k, b"+-*xn")),
        # Masks: number of elements selected, their sum, their maximum.
        lambda k: join(_comparison(draw, k), b"$"),
        lambda k: join(b"E", _comparison(draw, k), b"*", draw.choice(k, b"$X")),
        lambda k: join(b"E", _comparison(draw, k), b"K", draw.choice(k, b"L$XN")),
        # Element-wise arithmetic, then an aggregate.
        lambda k: join(draw.digit(k, 1, 9), draw.choice(k, b"+-*xn%"), draw.choice(k, b"$XN")),
        lambda k: join(draw.choice(k, b"aBe!?"), b"$"),
    )


def sequence_change(draw: Draw, n: int) -> Programs:
    """Draw functions from a sequence to a sequence: ``SV``, ``2*``, ``E5>K``."""
    return draw.mix(
        n,
        lambda k: join(draw.choice(k, b"SV")),
        lambda k: join(nothing(k), b"SV"),
        lambda k: join(draw.choice(k, b"SV~'aB")),
        lambda k: join(draw.digit(k, 1, 9), draw.operator(k)),
        lambda k: join(_comparison(draw, k)),
        lambda k: join(b"E", _comparison(draw, k), b"K"),
        lambda k: join(b"E", _comparison(draw, k), b"*"),
        lambda k: join(b"E", draw.choice(k, b"SV"), draw.choice(k, b"c+-*xn")),
        lambda k: join(draw.digit(k), b"b", draw.choice(k, b"SV")),
        lambda k: join(b"E", draw.choice(k, b"L$XN"), draw.choice(k, b"b+-")),
    )


def _comparison(draw: Draw, n: int) -> Programs:
    """Draw comparisons with a digit, mostly ones that about half of the numbers satisfy."""
    return join(draw.digit(n, 1, 8), draw.choice(n, b"<<>>="))
