r"""Labelling: ``f(x)=len(x)>1; x=(1,2,3); f(x)`` is ``\L1>;u1b2b3bf``."""

from cadmus.programs import Programs, join
from cadmus.templates.draw import Candidates, Draw, answered, definition
from cadmus.templates.functions import number_label, sequence_predicate


def apply_labels(draw: Draw, n: int) -> Candidates:
    r"""A definition, a sequence, a call and the label, to be completed from before the label.

    Half label the sequence: the program ends at once when the label is 1, with ``!`` when it is 0.  Half
    label each element through decorations: ``\5>;u3b7bEm:u3b71:bY``.
    """
    lengths = draw.dataset.templates.apply_labels.sequence_length

    def sequence(k: int) -> Programs:
        return draw.sequence(k, lengths)

    prompt = draw.mix(
        n,
        lambda k: join(definition(sequence_predicate(draw, k)), sequence(k), b"f"),
        lambda k: join(definition(number_label(draw, k)), sequence(k), b"Em:"),
    )
    return answered(prompt, labels=True)
