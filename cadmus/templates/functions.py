"""A grammar of functions that change and label sequences, and that induction infers from examples.

They are the bodies of subroutines. The functions that induction infers are simple ones, or compose them.
"""

from cadmus.templates.grammar import Grammar

DIGITS = "0123456789"
OPERATORS = "+-*/%xn"
AGGREGATES = "L$XN"
COMPARISON = Grammar(("12345678", "<<>>="))
"""With a digit, mostly ones that about half of the numbers satisfy."""

NUMBER_PREDICATE = Grammar(
    (COMPARISON,),
    (COMPARISON,),
    ("2345", "%", "012", "="),
    ("123456789", "+-*/", "e"),
    ("E", COMPARISON, "s", COMPARISON, "&|"),
)
"""From a number to 1 or 0: ``5>``, ``3%1=``, ``3/e``, ``E2>s7<&``."""

NUMBER_LABEL = Grammar(
    (NUMBER_PREDICATE,),
    ("23456789", "%"),
    ("234", "/"),
    (COMPARISON, DIGITS, "*"),
    (COMPARISON, DIGITS, DIGITS, "i"),
    ("ae'", "23456789", "n"),
)
"""From a number to a label from 0 to 9: ``3%``, ``4/``, ``5>``, ``5>2*``."""

NUMBER_FUNCTION = Grammar(
    ("123456789", OPERATORS),
    ("2345", "*", "123456789", "+-"),
    ("E", "123456789", "+-", "*"),
    ("123456789", "-", "Ba~'"),
    ("12345", "x", "56789", "n"),
    # Conditionals: a constant if the comparison holds; a changed argument if it is even.
    ("E", COMPARISON, DIGITS, "r", "i"),
    (*"Eeo", "B'~", *"ri"),
)
"""From a number to a number: ``3+``, ``2*1-``, ``E5>9ri``."""

PAIR_FUNCTION = Grammar(
    ("+-*xn",),
    ("123456789", "+-*", "+-xn"),
    ("s", "2345", "*", "+-xn"),
    ("o", "+-*", "+-xn"),
    ("+-", "a~'B"),
    ("<>=", "123456789", "+*"),
)
"""From two numbers to a number, which also fold sequences: ``+``, ``2*+``, ``o-a``."""

SEQUENCE_PREDICATE = Grammar(
    # Length, sum, maximum, minimum, the first and the last element.
    ("L", "1234", "<>="),
    ("$", "456789", DIGITS, "+", "<>"),
    ("X", "456789", "<>"),
    ("N", "12345", "<>"),
    ("0Z", "@", "2345678", "<>"),
    (AGGREGATES, "e"),
    ("E", AGGREGATES, "s", AGGREGATES, "<>="),
    # Order: ascending or a palindrome, descending, first against last, maximum at an end.
    ("E", "SSV", "Y"),
    (*"ESVY",),
    (*"E0@sZ@", "<>="),
    (*"EXs", "0Z", *"@="),
    # Membership; a condition that all elements meet, that any meets, that some number meets.
    (DIGITS, *"=$", "?!"),
    (COMPARISON, "A$", "?!"),
    (COMPARISON, "$", "12", "<>="),
    ("e?", "A$", "?"),
    ("E", COMPARISON, "s", COMPARISON, "&|", "$", "?"),
)
"""From a sequence to 1 or 0: ``L2>``, ``ESY``, ``7=$?``."""

SEQUENCE_FUNCTION = Grammar(
    (AGGREGATES,),
    (AGGREGATES, "123456789", "+-*%"),
    ("E", AGGREGATES, "s", AGGREGATES, OPERATORS),
    (*"E0@sZ@", "+-*xn"),
    # Masks: number of elements selected, their sum, their maximum.
    (COMPARISON, "$"),
    ("E", COMPARISON, "*", "$X"),
    ("E", COMPARISON, "K", AGGREGATES),
    # Element-wise arithmetic, then an aggregate.
    ("123456789", "+-*xn%", "$XN"),
    ("aBe!?", "$"),
)
"""From a sequence to a number: ``$``, ``X2*``, ``E5>*$``."""

SEQUENCE_CHANGE = Grammar(
    ("SV",),
    (*"SV",),
    ("SV~'aB",),
    ("123456789", OPERATORS),
    (COMPARISON,),
    ("E", COMPARISON, "K"),
    ("E", COMPARISON, "*"),
    ("E", "SV", "c+-*xn"),
    (DIGITS, "b", "SV"),
    ("E", AGGREGATES, "b+-"),
)
"""From a sequence to a sequence: ``SV``, ``2*``, ``E5>K``."""

CHANGE = Grammar(("123456789", "+-*"), ("'B~a",))
"""Of a number, or of each element: ``3+``, ``B``."""
SELECTION = Grammar((CHANGE,), ("E", COMPARISON, "K"))
"""Of a sequence: ``3+``, ``E5>K``."""
CONDITION = Grammar((AGGREGATES, COMPARISON), (AGGREGATES, COMPARISON), (AGGREGATES, "e"))
"""On a sequence: ``L3>``."""

COMPOSED_NUMBER_PREDICATE = Grammar(
    (CHANGE, COMPARISON), (CHANGE, "2345", "%", "012", "="), ("E", COMPARISON, "s", "2345", "%", "012", *"=&")
)
"""``3*5>``, ``2+3%1=``, ``E5>s3%1=&``."""
COMPOSED_NUMBER_FUNCTION = Grammar(
    (CHANGE, NUMBER_FUNCTION), ("E", Grammar((COMPARISON,), ("e",)), "o", CHANGE, "r", "'B~a", "i")
)
"""``2*9n``; ``E5>o2*rBi``, twice the argument if it exceeds 5, else half of it."""
COMPOSED_PAIR_FUNCTION = Grammar((CHANGE, PAIR_FUNCTION), (PAIR_FUNCTION, CHANGE))
"""``3*-``, ``x2+``."""
COMPOSED_SEQUENCE_PREDICATE = Grammar(
    (SELECTION, CONDITION), (SELECTION, CONDITION), ("E", "L", "1234", "<>=", "s", "$XN", COMPARISON, "&|")
)
"""``E5>KL3<``; ``EL3>sX7<&``, more than three elements, all below 7."""
COMPOSED_SEQUENCE_FUNCTION = Grammar(
    (SELECTION, AGGREGATES),
    (SELECTION, AGGREGATES, "123456789", "+-*%"),
    ("E", CONDITION, "o", AGGREGATES, "r", AGGREGATES, "i"),
)
"""``3+X2*``; ``EL3>oXr$i``, the maximum if there are more than three elements, else the sum."""
COMPOSED_SEQUENCE_CHANGE = Grammar((SELECTION, SEQUENCE_CHANGE))
"""``E5>KV``."""
