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
    repeated = (prefix for prefix in prefixes for _ in range(samples))  # lazily, as there may be many
    while batch := list(islice(repeated, AT_ONCE)):
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
    settings: dict[str, Any] = {"samples": samples, "temperature": temperature, "seed": seed}
    for greedy in complete(model, prefixes, max_length):
        sampled = complete(model, [greedy.prefix], max_length, **settings, first=first)  # lazily, if needed
        first += samples  # drawn or not, so that the samples of the next prefix are always the same
        numbered = enumerate(chain([greedy], sampled), start=1)
        valid = ((completion, tries) for tries, completion in numbered if completion.verified)
        yield next(valid, (greedy, 1 + samples))


def log_probabilities(model: "Cadmus", completions: list[Completion]) -> Iterator[np.ndarray]:
    """Yield the log-probabilities of each step of each completion, its end included: float32, (steps, 65)."""
    programs = [completion.program for completion in completions]
    for completion, of_program in zip(completions, model.log_probabilities(programs), strict=True):
        start = len(completion.prefix) - 1  # the last instruction of a prefix predicts what follows it
        yield of_program[start : start + len(completion.written)]
