r"""Induction: examples of a function, then its definition.

``f((1,2,3))=1; f((2,3))=0; f((1,2,3,4))=1; f(x)=len(x)>2`` is ``u1b2b3bfu2b3bf!u1b2b3b4bf\L2>;``.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from cadmus.errors import Defect
from cadmus.programs import Programs, Samples, interleave, join, offsets_of
from cadmus.templates import functions as grammars
from cadmus.templates.answers import answer, rows_of, writable
from cadmus.templates.behavior import CALLS, SAME_INPUTS, Functions, functions
from cadmus.templates.draw import Draw
from cadmus.templates.grammar import Grammar
from cadmus.vm import compiled

_NUMBER_PREDICATE = Grammar((grammars.NUMBER_PREDICATE,), (grammars.COMPOSED_NUMBER_PREDICATE,))
_NUMBER_FUNCTION = Grammar((grammars.NUMBER_FUNCTION,), (grammars.COMPOSED_NUMBER_FUNCTION,))
_PAIR_FUNCTION = Grammar((grammars.PAIR_FUNCTION,), (grammars.COMPOSED_PAIR_FUNCTION,))

KINDS = (
    (5, Grammar((grammars.SEQUENCE_PREDICATE,), (grammars.COMPOSED_SEQUENCE_PREDICATE,)), "label or reduce"),
    (2, _NUMBER_PREDICATE, "calculate"),
    (2, Grammar((grammars.SEQUENCE_FUNCTION,), (grammars.COMPOSED_SEQUENCE_FUNCTION,)), "label or reduce"),
    (2, _NUMBER_FUNCTION, "calculate"),
    (1, _PAIR_FUNCTION, "calculate with two"),
    (1, _PAIR_FUNCTION, "fold"),
    (1, Grammar((grammars.SEQUENCE_CHANGE,), (grammars.COMPOSED_SEQUENCE_CHANGE,)), "change"),
    (1, _NUMBER_FUNCTION, "map"),
    (1, _NUMBER_PREDICATE, "filter"),
)
"""Weight, functions and name of the calls of each kind."""
LABELLING = 2
"""Kinds, the first ones, whose results are labels."""

FIRST_EXAMPLE = re.compile(
    r"(?P<sequence>u(?:[0-9tZ]b)*|[0-9]I)?[0-9tZ]*(?P<call>[fFlmw])(?:!|[^fFlmw]*?[=Y])?"
)
"""A call and its result, at the start of a prompt."""
_BY_SYMBOL = {"F": "calculate with two", "l": "fold", "m": "map", "w": "filter"}


def calls_in(prompt: str) -> str:
    """Return the name in :data:`CALLS` of the calls in a prompt of this template."""
    example = FIRST_EXAMPLE.match(prompt)
    if not example:
        raise Defect(f"{prompt!r} does not begin with a call of complete_algorithm")
    if example["call"] in _BY_SYMBOL:
        return _BY_SYMBOL[example["call"]]
    if not example["sequence"]:
        return "calculate"
    # Only results that are sequences are compared with Y.
    return "change" if "Y" in prompt else "label or reduce"


def kind_of(prompt: str) -> int:
    """Return the index in :data:`KINDS` of the function that a prompt of this template gives examples of."""
    calls = calls_in(prompt)
    labels = not {"=", "Y"} & set(prompt)
    fits = [kind for kind, (_, _, name) in enumerate(KINDS) if name == calls and (kind < LABELLING) == labels]
    if len(fits) != 1:
        raise Defect(f"{prompt!r} does not show one kind of function")
    return fits[0]


def functions_of(kind: int) -> Functions:
    """Return the functions of a kind."""
    _, grammar, calls = KINDS[kind]
    return functions(grammar, SAME_INPUTS[calls])


def complete_algorithm(draw: Draw, n: int) -> Samples:
    """Draw calls of a function and their results, then its definition; the prompt ends before the latter.

    The function labels, calculates or changes sequences; it is called, mapped, folded with or filtered by.
    Each function has one spelling, its likeliest. The results of several examples are not all the same.
    """
    fields = draw.dataset.templates.complete_algorithm
    weights, _, calls = zip(*KINDS, strict=True)
    kind = draw.rng.choice(len(KINDS), size=n, p=np.divide(weights, sum(weights)))
    count = draw.rng.integers(fields.examples[0], fields.examples[1] + 1, size=n)
    written = _by_kind(kind, [partial(functions_of(index).draw, draw.rng) for index in range(len(KINDS))])
    call = _by_kind(np.repeat(kind, count), [partial(CALLS[name], draw) for name in calls])

    outcome = compiled.execute(join(written.take(np.repeat(np.arange(n), count)), call))
    labels = np.repeat(kind < LABELLING, count)
    first = np.cumsum(count) - count
    # A number for each result, the same for the same results; a collision only drops a prompt.
    result = outcome.length + outcome.values.astype(np.int64) @ (7 ** np.arange(outcome.values.shape[1]))
    fits = np.logical_and.reduceat(writable(outcome), first)
    # Equal results would fit a constant; a single example has no other to differ from.
    fits &= (np.minimum.reduceat(result, first) < np.maximum.reduceat(result, first)) | (count == 1)

    rows = np.repeat(fits, count)
    example = join(call.take(rows), answer(rows_of(outcome, rows), labels[rows]))
    # The examples of a prompt follow each other.
    examples = Programs(example.data, example.offsets[offsets_of(count[fits])])
    return Samples(join(examples, written.take(fits)), examples.lengths)


def _by_kind(kind: np.ndarray, samplers: Sequence[Callable[[int], Programs]]) -> Programs:
    """Draw row i with the sampler of its kind."""
    counts = np.bincount(kind, minlength=len(samplers)).tolist()
    return interleave(kind, [sampler(count) for sampler, count in zip(samplers, counts, strict=True)])
