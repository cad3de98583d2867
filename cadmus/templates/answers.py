"""Answers: the instructions that make a program true which leaves a value."""

import functools

import numpy as np

from cadmus.programs import Programs, Samples, interleave, join
from cadmus.templates.draw import nothing, only_where
from cadmus.vm import compiled
from cadmus.vm.values import NAN, SEQUENCE, Outcome

NUMERAL_MAX = 9_999
"""The largest number that :func:`numeral` writes."""


def answered(prompt: Programs) -> Samples:
    """Execute prompts and append the answers; a prompt without a writable answer is left out."""
    outcome = compiled.execute(prompt)
    rows = writable(outcome)
    prompt, outcome = prompt.take(rows), rows_of(outcome, rows)
    return Samples(join(prompt, answer(outcome)), prompt.lengths)


def answer(outcome: Outcome, labels: np.ndarray | None = None) -> Programs:
    """Write the answer to each top value: ``7=`` for 7, ``u1b2bY`` for a sequence.

    In the rows of the mask ``labels``, the value is its own answer: ``!`` for 0, nothing for any other.
    """
    variant = np.where(outcome.kind == SEQUENCE, 1, 0)
    if labels is not None:
        variant[labels] = 2
    numbers, sequences, labeled = (rows_of(outcome, variant == which) for which in range(3))
    # The label 1 makes the program true as it is, and 0 after `!`.
    label = join(nothing(len(labeled.kind)), b"!")
    return interleave(
        variant,
        [
            join(numeral(numbers.values[:, 0]), b"="),
            _sequence_answer(sequences),
            only_where(label, labeled.values[:, 0] == 0),
        ],
    )


def _sequence_answer(outcome: Outcome) -> Programs:
    elements = []
    for index in range(int(outcome.length.max(initial=0))):
        plain = numeral(outcome.values[:, index])
        decoration = outcome.decorations[:, index]
        decorated = only_where(join((decoration + ord("0")).astype(np.uint8), b":"), decoration > 0)
        elements.append(only_where(join(plain, decorated, b"b"), outcome.length > index))
    return join(nothing(len(outcome.length)), b"u", *elements, b"Y")


def rows_of(outcome: Outcome, rows: np.ndarray) -> Outcome:
    """Return some rows of an outcome: ``rows`` are indices or a mask."""
    return Outcome(*(column[rows] for column in outcome))


def numeral(values: np.ndarray) -> Programs:
    """Write numbers as every template does: decimal, by Horner's rule.

    >>> numeral(np.array([7, 10, 27, -30])).to_strings()
    ['7', 't', '2t*7+', '3t*~']
    """
    if np.any(np.abs(values) > NUMERAL_MAX):
        raise ValueError(f"numerals range from {-NUMERAL_MAX} to {NUMERAL_MAX}")
    return _numerals().take(values + NUMERAL_MAX)


# A table, because writing the numbers of a batch one by one would need a loop over programs.
@functools.cache
def _numerals() -> Programs:
    """Return the numerals from -NUMERAL_MAX to NUMERAL_MAX."""
    return Programs.from_strings(map(number_text, range(-NUMERAL_MAX, NUMERAL_MAX + 1)))


def number_text(value: int) -> str:
    if value < 0:
        return number_text(-value) + "~"
    if value < 10:
        return str(value)
    tens, ones = divmod(value, 10)
    text = "t" if tens == 1 else number_text(tens) + "t*"
    return text + (f"{ones}+" if ones else "")


def writable(outcome: Outcome) -> np.ndarray:
    """Tell which top values :func:`answer` can write: bool, shape (n,)."""
    # Unused elements are 0.
    in_range = (outcome.values >= -NUMERAL_MAX) & (outcome.values <= NUMERAL_MAX)
    return (outcome.kind != NAN) & in_range.all(axis=1)
