r"""The best possible induction: the posterior over the functions of the grammar, given the examples.

The sampler draws the kind of a function, a function of that kind and inputs for it, independently. The inputs
and their number say nothing about the function, and the kind shows in the prompt. So the functions that give
the results of all examples keep the ratios of their probabilities in the grammar, but for those whose
definition would make the program longer than ``dataset.max_length``. A learner who knows the grammar cannot
know more, and is right most often with what most of the posterior computes on fresh inputs.
"""

from functools import cache
from typing import NamedTuple

import numpy as np

from cadmus.config import Dataset
from cadmus.evaluate.criteria import FRESH_INPUTS, fresh_calls
from cadmus.programs import Programs, join
from cadmus.templates.complete_algorithm import FIRST_EXAMPLE, KINDS, kind_of
from cadmus.templates.draw import definition
from cadmus.vm.compiled import execute

AT_ONCE = 1 << 13
"""Functions that are called with the fresh inputs at once."""


class Functions(NamedTuple):
    """All functions of one kind."""

    bodies: Programs
    """m bodies of subroutines."""
    probability: np.ndarray
    """Of each in the grammar: float64, shape (m,)."""
    behaviour: np.ndarray
    """Equal for functions that agree on all fresh inputs: int64, shape (m,)."""


class Posterior(NamedTuple):
    """The functions that a prompt allows: some of those of its kind."""

    functions: Functions
    rows: np.ndarray
    """int64, shape (k,)."""
    probability: np.ndarray
    """Of each, given the prompt: float64, shape (k,)."""

    def by_behaviour(self) -> tuple[np.ndarray, np.ndarray]:
        """Return what the functions compute, and its probability: int64 and float64, shape (classes,)."""
        behaviour, of = np.unique(self.functions.behaviour[self.rows], return_inverse=True)
        return behaviour, np.bincount(of, self.probability, len(behaviour))

    def best(self) -> tuple[str, float]:
        """Return the definition that is most often right, and the probability that it is."""
        behaviour, probability = self.by_behaviour()
        chosen = probability.argmax()
        alike = self.functions.behaviour[self.rows] == behaviour[chosen]
        likeliest = self.rows[alike][self.probability[alike].argmax()]
        (text,) = definition(self.functions.bodies.take(likeliest[None])).to_strings()
        return text, float(probability[chosen])


def posterior(prompt: str, dataset: Dataset) -> Posterior:
    """Return the posterior of a prompt of complete_algorithm; of no functions if none gives its results."""
    functions = functions_of(kind_of(prompt), dataset.model_dump_json())
    room = dataset.max_length - len(prompt) - len("\\;")
    rows = np.flatnonzero(functions.bodies.lengths <= room)
    first = FIRST_EXAMPLE.match(prompt)
    assert first is not None
    # Most fail at the first example already.
    for examples in (first[0], prompt):
        rows = rows[execute(join(examples.encode(), definition(functions.bodies.take(rows)))).true]
    probability = functions.probability[rows]
    return Posterior(functions, rows, probability / probability.sum())


@cache
def functions_of(kind: int, dataset: str) -> Functions:
    """Return all functions of a kind, see :data:`KINDS`; the dataset is JSON, see :func:`fresh_calls`."""
    _, grammar, calls = KINDS[kind]
    bodies = Programs.from_strings(grammar.texts)
    fresh = fresh_calls(dataset)[calls]
    behaviour = np.empty(len(bodies), np.int64)
    for start in range(0, len(bodies), AT_ONCE):
        part = bodies.take(np.arange(start, min(start + AT_ONCE, len(bodies))))
        called = join(
            definition(part.take(np.repeat(np.arange(len(part)), FRESH_INPUTS))),
            fresh.take(np.tile(np.arange(FRESH_INPUTS), len(part))),
        )
        outcome = execute(called)
        columns = [outcome.kind[:, None], outcome.length[:, None], outcome.values, outcome.decorations]
        results = np.concatenate(columns, 1).astype(np.int64).reshape(len(part), -1)
        # Equal for equal results; 64 bits tell the others apart.
        factors = np.random.default_rng(0).integers(1, 2**62, results.shape[1])
        behaviour[start : start + len(part)] = results @ factors
    return Functions(bodies, np.array(list(grammar.texts.values())), behaviour)
