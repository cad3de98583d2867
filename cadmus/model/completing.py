"""Completions of prefixes, greedy or sampled.

Samples are numbered: sample ``i`` of prefix ``j`` has the number ``j * samples + i``. It depends on the seed,
its number and its prefix alone, not on batches.

This module does not import torch.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from cadmus import isa
from cadmus.vm import reference

if TYPE_CHECKING:
    from cadmus.model.inference import Cadmus

AT_ONCE = 256  # completions in a batch; they are yielded when a batch is done


@dataclass(frozen=True)
class Completion:
    """A completion ``text`` of a prefix, without the end; ``ended`` is False if the program was cut off."""

    prefix: str
    text: str
    ended: bool

    @property
    def program(self) -> str:
        """The whole program, without the end."""
        return self.prefix + self.text

    @property
    def written(self) -> str:
        """The text that the model wrote, its end included."""
        return self.text + isa.END if self.ended else self.text

    @cached_property
    def result(self) -> reference.Result:
        """The result of executing the whole program."""
        return reference.run(self.program)


def complete(
    model: "Cadmus",
    prefixes: Iterable[str],
    max_length: int,
    *,
    samples: int = 1,
    temperature: float = 0.0,
    seed: int = 0,
) -> Iterator[Completion]:
    """Yield ``samples`` completions of each prefix, by batch; options as for :meth:`Cadmus.complete`."""
    first = 0
    repeated = (prefix for prefix in prefixes for _ in range(samples))  # lazily, as there may be many
    while batch := list(islice(repeated, AT_ONCE)):
        texts, ended = model.complete(batch, max_length, temperature=temperature, seed=seed, first=first)
        yield from map(Completion, batch, texts.to_strings(), ended.tolist())
        first += len(batch)


def log_probabilities(model: "Cadmus", completions: list[Completion]) -> Iterator[np.ndarray]:
    """Yield the log-probabilities of each step of each completion, its end included: float32, (steps, 65)."""
    programs = [completion.program for completion in completions]
    for completion, of_program in zip(completions, model.log_probabilities(programs), strict=True):
        start = len(completion.prefix) - 1  # the last instruction of a prefix predicts what follows it
        yield of_program[start : start + len(completion.written)]
