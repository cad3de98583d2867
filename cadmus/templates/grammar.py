"""Grammars of instructions: texts with probabilities, drawn in batches or listed.

Both follow from one definition, so that the distribution that a template draws from is known exactly.
"""

from collections import defaultdict
from functools import cached_property, partial
from itertools import product
from math import prod

from cadmus.programs import Programs, join
from cadmus.templates.draw import Draw


class Grammar:
    """A distribution over texts, given by equally likely forms.

    A form is a sequence of independent parts: one character of a string, or a text of another grammar. A
    form or a character that is repeated is likelier.

    >>> Grammar(("L", "12", "<"), ("E", "S", "Y")).texts
    {'L1<': 0.25, 'L2<': 0.25, 'ESY': 0.5}
    """

    def __init__(self, *forms: "tuple[str | Grammar, ...]") -> None:
        self.forms = forms

    def draw(self, draw: Draw, n: int) -> Programs:
        """Draw ``n`` texts."""
        return draw.mix(n, *(partial(_draw, form, draw) for form in self.forms))

    @cached_property
    def texts(self) -> dict[str, float]:
        """All texts and their probabilities."""
        probabilities: dict[str, float] = defaultdict(float)  # added up: two forms may give the same text
        for form in self.forms:
            for parts in product(*map(_outcomes, form)):
                texts, factors = zip(*parts, strict=True)
                probabilities["".join(texts)] += prod(factors) / len(self.forms)
        return dict(probabilities)


def _draw(form: tuple[str | Grammar, ...], draw: Draw, n: int) -> Programs:
    return join(
        *(part.draw(draw, n) if isinstance(part, Grammar) else draw.choice(n, part.encode()) for part in form)
    )


def _outcomes(part: str | Grammar) -> list[tuple[str, float]]:
    if isinstance(part, Grammar):
        return list(part.texts.items())
    return [(symbol, 1 / len(part)) for symbol in part]
