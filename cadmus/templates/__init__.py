"""The nine sub-problems of the paper's Table 3, one file each.

A template is a function ``(draw, n) -> Candidates``: it composes pieces of programs, drawn for ``n``
programs at once, and never looks at a single program.  Its candidates need not be true; whoever samples
executes every one and keeps the true ones (:mod:`cadmus.dataset.shards`).
"""

from collections.abc import Callable

from cadmus.templates.advanced_sequences import advanced_sequences
from cadmus.templates.apply_labels import apply_labels
from cadmus.templates.basic_math import basic_math
from cadmus.templates.basic_sequences import basic_sequences
from cadmus.templates.complete_algorithm import complete_algorithm
from cadmus.templates.draw import Candidates, Draw
from cadmus.templates.equality import equality
from cadmus.templates.less_greater import less_greater
from cadmus.templates.random import random
from cadmus.templates.subroutines import subroutines

TEMPLATES: dict[str, Callable[[Draw, int], Candidates]] = {
    template.__name__: template
    for template in (
        basic_math,
        equality,
        less_greater,
        subroutines,
        random,
        basic_sequences,
        advanced_sequences,
        apply_labels,
        complete_algorithm,
    )
}

__all__ = ["TEMPLATES", "Candidates", "Draw"]
