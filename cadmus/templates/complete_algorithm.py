r"""Induction: examples of a function, then its definition.

``f((1,2,3))=1; f((2,3))=0; f((1,2,3,4))=1; f(x)=len(x)>2`` is ``u1b2b3bfu2b3bf!u1b2b3b4bf\L2>;``.
"""

from collections.abc import Callable

import numpy as np

from cadmus.programs import Programs, join
from cadmus.templates.draw import Candidates, Draw, definition, interleave, numeral, only_where, writable
from cadmus.templates.functions import number_function, sequence_function, sequence_predicate
from cadmus.vm import compiled


def complete_algorithm(draw: Draw, n: int) -> Candidates:
    """Several calls of a function with their results, to be completed by its definition.

    Half the functions tell sequences apart, a quarter make a number of a number, a quarter of a sequence.
    """
    lengths = draw.dataset.templates.complete_algorithm.sequence_length

    def sequence(k: int) -> Programs:
        return draw.sequence(k, lengths)

    def number(k: int) -> Programs:
        return join(draw.digit(k))

    kinds = [
        _induction(draw, sequence_predicate(draw, n // 2), sequence, _label),
        _induction(draw, number_function(draw, n // 4), number, _result),
        _induction(draw, sequence_function(draw, n // 4), sequence, _result),
    ]
    kind = draw.rng.permutation(np.repeat([0, 1, 2], [len(examples) for examples, _ in kinds]))
    examples = interleave(kind, [examples for examples, _ in kinds])
    body = interleave(kind, [body for _, body in kinds])
    return Candidates(join(examples, definition(body)), examples.lengths)


def _induction(
    draw: Draw,
    body: Programs,
    argument: Callable[[int], Programs],
    written: Callable[[np.ndarray], Programs],
) -> tuple[Programs, Programs]:
    """Examples of each function and its body, where the results are numbers and not all the same."""
    n = len(body)
    pieces, smallest, largest = [], np.full(n, np.inf), np.full(n, -np.inf)
    fits = np.ones(n, np.bool_)
    for present in draw.present(n, draw.dataset.templates.complete_algorithm.examples):
        call = join(argument(n), b"f")
        outcome = compiled.execute(join(definition(body), call))
        fine = (outcome.kind == compiled.NUMBER) & writable(outcome)
        result = np.where(fine, outcome.values[:, 0], 0)
        fits &= fine | ~present
        smallest = np.where(present, np.minimum(smallest, result), smallest)
        largest = np.where(present, np.maximum(largest, result), largest)
        pieces.append(only_where(join(call, written(result)), present))
    rows = fits & (smallest < largest)
    return join(*pieces).take(rows), body.take(rows)


def _label(result: np.ndarray) -> Programs:
    return only_where(join(np.full(len(result), ord("!"), np.uint8)), result == 0)


def _result(result: np.ndarray) -> Programs:
    return join(numeral(result), b"=")
