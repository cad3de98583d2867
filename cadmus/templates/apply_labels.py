r"""Labelling: ``f(x)=len(x)>1; x=(1,2,3); f(x)`` is ``\L1>;u1b2b3bf``."""

import numpy as np

from cadmus.programs import join
from cadmus.templates.draw import (
    Candidates,
    Draw,
    answer,
    definition,
    interleave,
    only_where,
    rows_of,
    writable,
)
from cadmus.templates.functions import element_label, sequence_predicate
from cadmus.vm import compiled


def apply_labels(draw: Draw, n: int) -> Candidates:
    r"""A definition, a sequence, a call and the label, to be completed from before the label.

    Half label the sequence: the program ends at once when the label is 1, with ``!`` when it is 0.  Half
    label each element through decorations: ``\5>;u3b7bEm:u3b71:bY``.
    """
    lengths = draw.dataset.templates.apply_labels.sequence_length
    half = n // 2

    whole = join(definition(sequence_predicate(draw, half)), draw.sequence(half, lengths), b"f")
    label = compiled.execute(whole)
    whole_answer = only_where(join(draw.choice(half, b"!")), label.values[:, 0] == 0)

    each = join(definition(element_label(draw, half)), draw.sequence(half, lengths), b"Em:")
    labels = compiled.execute(each)
    rows = writable(labels)
    each = each.take(rows)
    each_answer = answer(rows_of(labels, rows))

    kind = draw.rng.permutation(np.repeat([0, 1], [half, len(each)]))
    prompt = interleave(kind, [whole, each])
    return Candidates(join(prompt, interleave(kind, [whole_answer, each_answer])), prompt.lengths)
