r"""The pieces that templates compose, drawn for a whole batch at once.

A piece is a batch of program texts (:class:`cadmus.programs.Programs`) or one instruction per row; pieces
are put together with :func:`cadmus.programs.join`, literals being plain ``bytes``.
"""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numba
import numpy as np

from cadmus.config import OPERATORS, Dataset, ExpressionTemplate
from cadmus.programs import Programs, interleave, join, offsets_of
from cadmus.templates.values import ValueSampler
from cadmus.vm import compiled
from cadmus.vm.outcome import NAN, NUMBER, SEQUENCE, Outcome


class Candidates(NamedTuple):
    """Programs of a template before they are executed.

    Attributes:
        programs: at most as many as were asked for.
        prompt_length: int64, shape (n,), instructions that a model is given in evaluation.
        x, y: int64, shape (n,), the compared values, or None where the template has none.
    """

    programs: Programs
    prompt_length: np.ndarray
    x: np.ndarray | None = None
    y: np.ndarray | None = None

    def take(self, rows: np.ndarray) -> "Candidates":
        """The candidates at ``rows`` (indices), in that order."""
        x, y = (None if column is None else column[rows] for column in (self.x, self.y))
        return Candidates(self.programs.take(rows), self.prompt_length[rows], x, y)


class Draw:
    """A source of random pieces.

    Args:
        rng: the only source of randomness.
        dataset: ranges and lengths.
    """

    def __init__(self, rng: np.random.Generator, dataset: Dataset) -> None:
        self.rng = rng
        self.dataset = dataset
        self._known: dict[tuple[object, ...], ValueSampler] = {}

    def choice(self, n: int, symbols: bytes) -> np.ndarray:
        """One of ``symbols`` per row: uint8, shape (n,)."""
        return np.frombuffer(symbols, np.uint8)[self.rng.integers(len(symbols), size=n, dtype=np.uint8)]

    def digit(self, n: int, low: int = 0, high: int = 9) -> np.ndarray:
        """A digit literal per row: uint8, shape (n,)."""
        return self.rng.integers(ord("0") + low, ord("0") + high + 1, size=n, dtype=np.uint8)

    def operator(self, n: int) -> np.ndarray:
        """An arithmetic operator with two arguments per row: uint8, shape (n,)."""
        return self.choice(n, OPERATORS.encode())

    def mix(self, n: int, *samplers: Callable[[int], Programs]) -> Programs:
        """``n`` programs, each from one of ``samplers`` with equal shares."""
        (mixed,) = self.mix_parts(n, *(lambda k, sampler=sampler: (sampler(k),) for sampler in samplers))
        return mixed

    def mix_parts(self, n: int, *samplers: Callable[[int], tuple[Programs, ...]]) -> tuple[Programs, ...]:
        """As :meth:`mix` where a sampler gives several pieces that belong together, all the same number."""
        variant = self.rng.integers(len(samplers), size=n, dtype=np.uint8)
        shares = np.bincount(variant, minlength=len(samplers)).tolist()
        drawn = [sampler(share) for sampler, share in zip(samplers, shares, strict=True)]
        return tuple(interleave(variant, parts) for parts in zip(*drawn, strict=True))

    def values(self, n: int, of: ExpressionTemplate) -> np.ndarray:
        """Numbers to compare, for which there are expressions: int64, shape (n,).

        Raises:
            InputError: no expression has a value in the configured range.
        """
        return self._numbers(of).values(self.rng, n)

    def expression(self, values: np.ndarray, of: ExpressionTemplate) -> Programs:
        """An expression for each of ``values``, which are :meth:`expressible`."""
        return self._numbers(of).expressions(self.rng, values)

    def expressible(self, values: np.ndarray, of: ExpressionTemplate) -> np.ndarray:
        """Whether each of ``values`` is in the range and has an expression: bool, of the same shape."""
        return self._numbers(of).has(values)

    def _numbers(self, of: ExpressionTemplate) -> ValueSampler:
        key = (tuple(of.expression_lengths), tuple(of.length_weights or ()), of.operators)
        if key not in self._known:
            self._known[key] = ValueSampler(
                of.expression_lengths, of.length_weights, of.operators, self.dataset.values
            )
        return self._known[key]

    def literal(self, n: int) -> np.ndarray:
        """A literal number per row, from -1 to 10: uint8, shape (n,)."""
        return self.choice(n, b"0123456789tZ")

    def sequence(self, n: int, lengths: Sequence[int]) -> Programs:
        """Sequences of literal numbers, ``lengths`` being the fewest and the most elements.

        Most are built by appending (``u3b1b``), one in eight is a range (``4I``).
        """
        return self.mix(
            n,
            *[lambda k: self.sequences(k, lengths, 1)[0]] * 7,
            lambda k: join(self.digit(k, *lengths), b"I"),
        )

    def sequences(self, n: int, lengths: Sequence[int], number: int) -> list[Programs]:
        """``number`` sequences of literal numbers, built by appending, those in a row of one length."""
        present = self.present(n, lengths)
        return [
            join(
                nothing(n),
                b"u",
                *(only_where(join(self.literal(n), b"b"), here) for here in present),
            )
            for _ in range(number)
        ]

    def present(self, n: int, counts: Sequence[int]) -> list[np.ndarray]:
        """Which rows have a first thing, a second and so on, from ``counts[0]`` to ``counts[1]`` of them.

        Returns:
            For each thing a mask: bool, shape (n,).
        """
        low, high = counts
        drawn = self.rng.integers(low, high + 1, size=n)
        return [drawn > place for place in range(high)]


def only_where(piece: Programs, mask: np.ndarray) -> Programs:
    """The piece in the rows of ``mask`` (bool, shape (n,)), nothing in the others."""
    return piece.prefixes(piece.lengths * mask)


def comparator(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The comparison that holds of each ``x`` and ``y``, one of ``<=>``: uint8, shape (n,)."""
    symbols: np.ndarray = np.frombuffer(b"<=>", np.uint8)[np.sign(x - y) + 1]
    return symbols


def nothing(n: int) -> Programs:
    """Empty pieces."""
    return Programs(np.empty(0, np.uint8), np.zeros(n + 1, np.int64))


def definition(body: Programs) -> Programs:
    r"""A subroutine with the given body: ``\body;``."""
    return join(b"\\", body, b";")


@functools.cache
def _numerals() -> tuple[int, Programs]:
    """The numerals from -NUMERAL_MAX to NUMERAL_MAX, and the row of 0."""
    texts = [_numeral(value) for value in range(-NUMERAL_MAX, NUMERAL_MAX + 1)]
    return NUMERAL_MAX, Programs.from_strings(texts)


NUMERAL_MAX = 9_999
"""The largest number that :func:`numeral` writes."""


def _numeral(value: int) -> str:
    if value < 0:
        return _numeral(-value) + "~"
    if value < 10:
        return str(value)
    tens, ones = divmod(value, 10)
    text = "t" if tens == 1 else _numeral(tens) + "t*"
    return text + (f"{ones}+" if ones else "")


def numeral(values: np.ndarray) -> Programs:
    """The one way in which templates write a number: decimal, by Horner's rule.

    >>> numeral(np.array([7, 10, 27, -30])).to_strings()
    ['7', 't', '2t*7+', '3t*~']

    Raises:
        ValueError: a value is beyond ``NUMERAL_MAX``.
    """
    if np.any(np.abs(values) > NUMERAL_MAX):
        raise ValueError(f"numerals reach from {-NUMERAL_MAX} to {NUMERAL_MAX}")
    zero, texts = _numerals()
    return texts.take(values + zero)


def writable(outcome: Outcome) -> np.ndarray:
    """Rows whose top value :func:`answer` can write: bool, shape (n,)."""
    return _writable(outcome.kind, outcome.length, outcome.values)


@numba.njit(cache=True, nogil=True)
def _writable(
    kind: np.ndarray, length: np.ndarray, values: np.ndarray
) -> np.ndarray:  # pragma: no cover - compiled
    fits: np.ndarray = kind != NAN
    for row in range(len(kind)):
        for place in range(max(1, length[row])):
            fits[row] &= -NUMERAL_MAX <= values[row, place] <= NUMERAL_MAX
    return fits


def rows_of(outcome: Outcome, rows: np.ndarray) -> Outcome:
    """The outcomes of some programs: ``rows`` are indices or a mask."""
    return Outcome(*(column[rows] for column in outcome))


def answer(outcome: Outcome, labels: np.ndarray | None = None) -> Programs:
    """What makes a program true that leaves each top value: ``7=`` for 7, ``u1b2bY`` for a sequence.

    In the rows of the mask ``labels`` it is the label itself: ``!`` for 0, nothing for another value.
    """
    kind = np.where(outcome.kind == SEQUENCE, 1, 0)
    if labels is not None:
        kind[labels] = 2
    numbers, sequences, labelled = (rows_of(outcome, kind == which) for which in range(3))
    label = join(nothing(len(labelled.kind)), b"!")
    return interleave(
        kind,
        [
            join(numeral(numbers.values[:, 0]), b"="),
            _sequence_answer(sequences),
            only_where(label, labelled.values[:, 0] == 0),
        ],
    )


def _sequence_answer(outcome: Outcome) -> Programs:
    elements = []
    for place in range(int(outcome.length.max(initial=0))):
        plain = numeral(outcome.values[:, place])
        decoration = outcome.decorations[:, place]
        decorated = only_where(join((decoration + ord("0")).astype(np.uint8), b":"), decoration > 0)
        elements.append(only_where(join(plain, decorated, b"b"), outcome.length > place))
    return join(nothing(len(outcome.length)), b"u", *elements, b"Y")


def answered(prompt: Programs, labels: bool = False) -> Candidates:
    """Programs that ask something and the answers, to be completed from before the answer.

    What cannot be answered is left out.  With ``labels`` a number is a label, see :func:`answer`.
    """
    outcome = compiled.execute(prompt)
    rows = writable(outcome)
    prompt, outcome = prompt.take(rows), rows_of(outcome, rows)
    given = answer(outcome, outcome.kind == NUMBER if labels else None)
    return Candidates(join(prompt, given), prompt.lengths)


def merged(programs: Programs, counts: np.ndarray) -> Programs:
    """One program of the first ``counts[0]``, one of the next ``counts[1]`` and so on."""
    return Programs(programs.data, programs.offsets[offsets_of(counts)])
