"""Completions of prefixes: greedy, sampled, or sampled until one is verified.

A completion is *verified* if the whole program is true, and the completion ended by itself and drops nothing:
the lenient metric of docs/grading.md, which the VM can check without knowing the right answer.

Samples are numbered: sample ``i`` of prefix ``j`` has the number ``j * samples + i``. It depends on the seed,
its number and its prefix alone, not on batches nor on whether one samples until a completion is verified.

This module does not import torch.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np

from cadmus import isa
from cadmus.model.verifying import verified
from cadmus.programs import Programs
from cadmus.vm import reference

if TYPE_CHECKING:
    from cadmus.model.inference import Cadmus

AT_ONCE = 256
"""Completions in a batch."""


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
        return self.text + isa.END * self.ended

    @cached_property
    def result(self) -> reference.Result:
        """The result of executing the whole program."""
        return reference.run(self.program)

    @cached_property
    def verified(self) -> bool:
        """True if the completion is verified."""
        prompt, text = (Programs.from_strings([text]) for text in (self.prefix, self.text))
        return bool(verified(prompt, text, np.array([self.ended]))[0])


def complete(
    model: "Cadmus",
    prefixes: Iterable[str],
    max_length: int,
    *,
    samples: int = 1,
    temperature: float = 0.0,
    seed: int = 0,
    first: int = 0,
) -> Iterator[Completion]:
    """Yield ``samples`` completions of each prefix, batch by batch; options as for :meth:`Cadmus.complete`.

    Whole programs have at most ``max_length`` instructions; ``first`` is the number of the first sample.
    """
    asked = (prefix for prefix in prefixes for _ in range(samples))
    while batch := list(islice(asked, AT_ONCE)):
        texts, ended = model.complete(batch, max_length, temperature=temperature, seed=seed, first=first)
        yield from map(Completion, batch, texts.to_strings(), ended.tolist())
        first += len(batch)


def complete_verified(
    model: "Cadmus",
    prefixes: Iterable[str],
    max_length: int,
    *,
    samples: int,
    temperature: float,
    seed: int = 0,
    first: int = 0,
) -> Iterator[tuple[Completion, int]]:
    """Try the greedy completion of each prefix, then at most ``samples`` of it, until one is verified.

    Yields the first verified completion, or the greedy one if all fail, and the number of completions tried.
    """
    drawing: dict[str, Any] = {"samples": samples, "temperature": temperature, "seed": seed}
    for greedy in complete(model, prefixes, max_length):
        drawn = complete(model, [greedy.prefix], max_length, **drawing, first=first)
        first += samples
        numbered = enumerate(chain([greedy], drawn), start=1)
        yield next(((each, tries) for tries, each in numbered if each.verified), (greedy, 1 + samples))


def log_probabilities(model: "Cadmus", completions: list[Completion]) -> Iterator[np.ndarray]:
    """Yield the log-probabilities of each step of each completion, its end included: float32, (steps, 65)."""
    programs = [completion.program for completion in completions]
    for completion, of_program in zip(completions, model.log_probabilities(programs), strict=True):
        start = len(completion.prefix) - 1
        yield of_program[start : start + len(completion.written)]
