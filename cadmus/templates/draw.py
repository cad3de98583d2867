r"""Random pieces of programs, drawn for a whole batch at once.

A piece is a batch of program texts (:class:`cadmus.programs.Programs`) or one instruction per row. Templates
combine pieces with :func:`cadmus.programs.join`, which also takes literal ``bytes``.
"""

from collections.abc import Callable, Sequence

import numpy as np

from cadmus.config import OPERATORS, Dataset, ExpressionTemplate
from cadmus.programs import Programs, interleave, join
from cadmus.templates.values import ValueSampler


class Draw:
    """A source of random pieces: all randomness is from ``rng``, ranges and lengths are from ``dataset``."""

    def __init__(self, rng: np.random.Generator, dataset: Dataset) -> None:
        self.rng = rng
        self.dataset = dataset
        self._samplers: dict[str, ValueSampler] = {}

    def choice(self, n: int, symbols: bytes) -> np.ndarray:
        """Draw one of ``symbols`` per row: uint8, shape (n,)."""
        # With another dtype, here and below, the stream gives other numbers and all datasets change.
        return np.frombuffer(symbols, np.uint8)[self.rng.integers(len(symbols), size=n, dtype=np.uint8)]

    def digit(self, n: int, low: int = 0, high: int = 9) -> np.ndarray:
        """Draw a digit per row: uint8, shape (n,)."""
        return self.rng.integers(ord("0") + low, ord("0") + high + 1, size=n, dtype=np.uint8)

    def literal(self, n: int) -> np.ndarray:
        """Draw a number literal per row, from -1 to 10: uint8, shape (n,)."""
        return self.choice(n, b"0123456789tZ")

    def operator(self, n: int) -> np.ndarray:
        """Draw a binary arithmetic operator per row: uint8, shape (n,)."""
        return self.choice(n, OPERATORS.encode())

    def mix(self, n: int, *samplers: Callable[[int], Programs]) -> Programs:
        """Draw ``n`` programs, each from one of ``samplers`` with equal probability."""
        # mix_parts expects tuples; the default binds each sampler, as the loop changes what the name means.
        (mixed,) = self.mix_parts(n, *(lambda k, sampler=sampler: (sampler(k),) for sampler in samplers))
        return mixed

    def mix_parts(self, n: int, *samplers: Callable[[int], tuple[Programs, ...]]) -> tuple[Programs, ...]:
        """As :meth:`mix`, for samplers that return several pieces per row, all the same number."""
        variant = self.rng.integers(len(samplers), size=n, dtype=np.uint8)
        counts = np.bincount(variant, minlength=len(samplers)).tolist()
        batches = [sampler(count) for sampler, count in zip(samplers, counts, strict=True)]
        return tuple(interleave(variant, parts) for parts in zip(*batches, strict=True))

    def values(self, n: int, fields: ExpressionTemplate) -> np.ndarray:
        """Draw numbers to compare, each the value of some expression: int64, shape (n,)."""
        return self._sampler(fields).values(self.rng, n)

    def expression(self, values: np.ndarray, fields: ExpressionTemplate) -> Programs:
        """Draw an expression for each of ``values``, which must be :meth:`expressible`."""
        return self._sampler(fields).expressions(self.rng, values)

    def expressible(self, values: np.ndarray, fields: ExpressionTemplate) -> np.ndarray:
        """Tell which of ``values`` are in the range and have an expression: bool, of the same shape."""
        return self._sampler(fields).has(values)

    def _sampler(self, fields: ExpressionTemplate) -> ValueSampler:
        key = f"{fields.expression_lengths} {fields.length_weights} {fields.operators}"  # fields have no hash
        if key not in self._samplers:
            self._samplers[key] = ValueSampler(fields, self.dataset.values)
        return self._samplers[key]

    def sequence(self, n: int, lengths: Sequence[int]) -> Programs:
        """Draw sequences of number literals with ``lengths[0]`` to ``lengths[1]`` elements.

        Seven of eight are built by appending (``u3b1b``), the others are ranges (``4I``).
        """
        return self.mix(
            n,
            *[lambda k: self.sequences(k, lengths, 1)[0]] * 7,
            lambda k: join(self.digit(k, *lengths), b"I"),
        )

    def sequences(self, n: int, lengths: Sequence[int], number: int) -> list[Programs]:
        """Draw ``number`` sequences per row, built by appending; those of a row have the same length."""
        low, high = lengths
        size = self.rng.integers(low, high + 1, size=n)
        # Every row draws all elements and drops those beyond its size: no loop over rows.
        return [
            join(nothing(n), b"u", *(only_where(join(self.literal(n), b"b"), size > i) for i in range(high)))
            for _ in range(number)
        ]


def only_where(piece: Programs, mask: np.ndarray) -> Programs:
    """Return the piece in the rows of ``mask`` (bool, shape (n,)) and nothing in the others."""
    return piece.prefixes(piece.lengths * mask)


def nothing(n: int) -> Programs:
    """Return ``n`` empty pieces."""
    return Programs(np.empty(0, np.uint8), np.zeros(n + 1, np.int64))


def definition(body: Programs) -> Programs:
    r"""Return a subroutine with the given body: ``\body;``."""
    return join(b"\\", body, b";")


def comparator(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the comparator, one of ``<=>``, that makes each comparison true: uint8, shape (n,)."""
    return np.frombuffer(b"<=>", np.uint8)[np.sign(x - y) + 1]


def without_majority(draw: Draw, symbols: np.ndarray) -> np.ndarray:
    """Return rows in which no symbol, uint8 of shape (n,), has a majority: int64.

    Rows with the most frequent symbol are dropped at random, if it has one.
    """
    most = np.bincount(symbols, minlength=1).argmax()  # of no rows, argmax would fail
    majority = symbols == most
    others = np.sum(~majority)
    # Without any other symbol there is nothing to balance.
    fraction = others / np.sum(majority) if 0 < others < np.sum(majority) else 1
    return np.flatnonzero(~majority | (draw.rng.random(len(symbols)) < fraction))
