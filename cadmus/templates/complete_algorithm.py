r"""Induction: examples of a function, then its definition.

``f((1,2,3))=1; f((2,3))=0; f((1,2,3,4))=1; f(x)=len(x)>2`` is ``u1b2b3bfu2b3bf!u1b2b3b4bf\L2>;``.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from cadmus.programs import Programs, Samples, interleave, join
from cadmus.templates.answers import answer, rows_of, writable
from cadmus.templates.draw import Draw, definition, merged
from cadmus.templates.functions import (
    number_function,
    number_predicate,
    pair_function,
    sequence_change,
    sequence_function,
    sequence_predicate,
)
from cadmus.vm import compiled


def complete_algorithm(draw: Draw, n: int) -> Samples:
    """Draw calls of a function and their results, then its definition; the prompt ends before the latter.

    The function labels, calculates or changes sequences; it is called, mapped, folded with or filtered by.
    The results of its examples are not all the same.
    """
    fields = draw.dataset.templates.complete_algorithm
    low, high = fields.sequence_length

    sequence = partial(draw.sequence, lengths=(low, high))
    # For functions whose result is a sequence as well.
    short = partial(draw.sequence, lengths=(low, max(low, high // 2)))

    def number(k: int) -> Programs:
        return join(draw.literal(k))

    # Weight, sampler of functions, sampler of calls. The first two kinds label.
    kinds = (
        (5, sequence_predicate, lambda k: join(sequence(k), b"f")),
        (2, number_predicate, lambda k: join(number(k), b"f")),
        (2, sequence_function, lambda k: join(sequence(k), b"f")),
        (2, number_function, lambda k: join(number(k), b"f")),
        (1, pair_function, lambda k: join(number(k), number(k), b"F")),
        (1, pair_function, lambda k: join(sequence(k), number(k), b"l")),
        (1, sequence_change, lambda k: join(short(k), b"f")),
        (1, number_function, lambda k: join(short(k), b"m")),
        (1, number_predicate, lambda k: join(short(k), b"w")),
    )
    weights, functions, calls = zip(*kinds, strict=True)
    kind = draw.rng.choice(len(kinds), size=n, p=np.divide(weights, sum(weights)))
    count = draw.rng.integers(fields.examples[0], fields.examples[1] + 1, size=n)
    body = _by_kind(kind, [partial(function, draw) for function in functions])
    call = _by_kind(np.repeat(kind, count), calls)

    outcome = compiled.execute(join(definition(body.take(np.repeat(np.arange(n), count))), call))
    labels = np.repeat(kind < 2, count)
    first = np.cumsum(count) - count
    # A number for each result, the same for the same results.
    result = outcome.length + outcome.values.astype(np.int64) @ (7 ** np.arange(outcome.values.shape[1]))
    fits = np.logical_and.reduceat(writable(outcome), first)
    fits &= np.minimum.reduceat(result, first) < np.maximum.reduceat(result, first)

    kept = np.repeat(fits, count)
    example = join(call.take(kept), answer(rows_of(outcome, kept), labels[kept]))
    examples = merged(example, count[fits])
    return Samples(join(examples, definition(body.take(fits))), examples.lengths)


def _by_kind(kind: np.ndarray, samplers: Sequence[Callable[[int], Programs]]) -> Programs:
    """Draw row i with the sampler of its kind."""
    counts = np.bincount(kind, minlength=len(samplers)).tolist()
    return interleave(kind, [sampler(count) for sampler, count in zip(samplers, counts, strict=True)])
