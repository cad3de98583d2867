r"""Labelling: ``f(x)=len(x)>1; x=(1,2,3); f(x)==1`` is ``\L1>;u1b2b3bf1=``."""

from functools import partial

from cadmus.programs import Samples, join
from cadmus.templates.answers import answered
from cadmus.templates.draw import Draw, definition
from cadmus.templates.functions import NUMBER_LABEL, SEQUENCE_PREDICATE


def apply_labels(draw: Draw, n: int) -> Samples:
    r"""Draw a definition, a sequence, a call and the label; the prompt ends before the label.

    Half of the programs label the sequence. The others label each element with a decoration:
    ``\5>;u3b7bEm:u3b71:bY``.
    """
    sequence = partial(draw.sequence, lengths=draw.dataset.templates.apply_labels.sequence_length)
    prompt = draw.mix(
        n,
        lambda k: join(definition(SEQUENCE_PREDICATE.draw(draw, k)), sequence(k), b"f"),
        # `E`, because `:` needs the sequence itself under its labels.
        lambda k: join(definition(NUMBER_LABEL.draw(draw, k)), sequence(k), b"Em:"),
    )
    return answered(prompt)
