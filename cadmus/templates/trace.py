"""Executions step by step: ``34*5+`` is followed by ``34*Et2+=/5+Et7+=/=``, which says 12 and 17."""

import numpy as np

from cadmus.config import OPERATORS
from cadmus.programs import Programs, Samples, join, offsets_of
from cadmus.templates.answers import answered, numeral
from cadmus.templates.draw import Draw, only_where
from cadmus.vm import compiled

_OPERATORS = np.frombuffer(OPERATORS.encode(), np.uint8)


def trace(draw: Draw, n: int) -> Samples:
    """Draw ``expression trace``; the prompt is the expression.

    The trace is the expression again, with the value after each operator, and ``=``. ``E``, a number and
    ``=/`` divide the value on top by 1 if it is that number, which changes nothing; otherwise by 0. That is
    NAN, and so is all that follows.
    """
    fields = draw.dataset.templates.trace
    expressions = draw.expression(draw.values(n, fields), fields)
    if fields.written == "answer":
        return answered(expressions)
    prefixes, row, length = expressions.all_prefixes()
    instruction = prefixes.data[prefixes.offsets[1:] - 1]
    last = length == expressions.lengths[row]
    check = join(b"E", numeral(compiled.execute(prefixes).values[:, 0]), b"=/")
    step = join(
        instruction, only_where(check, last if fields.written == "last" else np.isin(instruction, _OPERATORS))
    )
    steps = Programs(step.data, step.offsets[offsets_of(expressions.lengths)])
    return Samples(join(expressions, steps, b"="), expressions.lengths)
