r"""The best possible induction: the posterior over the functions of the grammar, given the examples.

The sampler draws the kind of a function, a function of that kind and inputs for it, independently. The inputs
and their number say nothing about the function, and the kind shows in the prompt. So the functions that give
the results of all examples keep the ratios of their probabilities in the grammar, but for those that would
make the program longer than ``dataset.max_length`` or are kept out of its split by a rule. A learner who
knows the grammar cannot know more, and is right most often with what most of the posterior computes on fresh
inputs. In the split ood the posterior has all functions, as nobody can know which of them training left out.
"""

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np

from cadmus.config import OOD, Dataset
from cadmus.dataset.splits import matches
from cadmus.programs import Programs, Samples, join
from cadmus.templates.behavior import behavior, fresh_calls
from cadmus.templates.complete_algorithm import FIRST_EXAMPLE, KINDS, functions_of, kind_of
from cadmus.templates.induction import computes
from cadmus.tools import progress
from cadmus.vm.compiled import are_true


class Posterior(NamedTuple):
    """The functions that a prompt allows."""

    definitions: Programs
    """k definitions."""
    probability: np.ndarray
    """Of each, given the prompt: float64, shape (k,)."""
    behavior: np.ndarray
    """Equal for functions that agree on all fresh inputs: int64, shape (k,)."""

    def by_behavior(self) -> tuple[np.ndarray, np.ndarray]:
        """Return what the functions compute, and its probability: int64 and float64, shape (classes,)."""
        behavior, inverse = np.unique(self.behavior, return_inverse=True)
        probability = np.bincount(inverse, self.probability, len(behavior))
        return behavior, probability / probability.sum()


def posterior(prompt: str, dataset: Dataset, split: str = "test") -> Posterior:
    """Return the posterior of a prompt of complete_algorithm; of no functions if none gives its results."""
    kind = kind_of(prompt)
    functions = functions_of(kind)
    first, *others = [match[0] for match in FIRST_EXAMPLE.finditer(prompt)]
    # The first example narrows thousands of functions down, and its result is often in the cache.
    rows = _that_fit(kind, first)
    # The sampler drops longer programs, so the prompt rules these functions out.
    rows = rows[functions.definitions.lengths[rows] <= dataset.max_length - len(prompt)]
    for example in others:
        rows = rows[are_true(join(example.encode(), functions.definitions.take(rows)))]
    # Outside the split ood, no program has a function that a rule excludes.
    rules = dataset.rules_for("complete_algorithm")
    if rules and split != OOD:
        programs = join(prompt.encode(), functions.definitions.take(rows))
        excluded = matches(rules.values(), Samples(programs, np.full(len(rows), len(prompt))))
        rows = rows[~excluded.any(0)]
    probability = functions.probability[rows]
    behavior = behavior_of(kind, dataset.model_dump_json())[rows]
    return Posterior(functions.definitions.take(rows), probability / probability.sum(), behavior)


def prior(prompt: str, dataset: Dataset) -> int:
    """Return what functions of the kind compute most probably: the best answer without the examples."""
    kind = kind_of(prompt)
    every = Posterior(*functions_of(kind)[:2], behavior_of(kind, dataset.model_dump_json()))
    behavior, probability = every.by_behavior()
    return int(behavior[probability.argmax()])


def credence(
    prompts: Sequence[str], definitions: Sequence[str], dataset: Dataset, split: str = "test"
) -> np.ndarray:
    """Return the probability that each definition is right, if it fits its prompt: float64, shape (n,)."""
    credences = np.empty(len(prompts))
    # One posterior per prompt: each has many samples.
    distinct, number = np.unique(prompts, return_inverse=True)
    for k, prompt in enumerate(distinct.tolist()):
        rows = np.flatnonzero(number == k).tolist()
        classes, probability = posterior(prompt, dataset, split).by_behavior()
        computed = computes(prompt, [definitions[row] for row in rows], dataset)
        credences[rows] = (computed[:, None] == classes) @ probability
    return credences


def best_possible(prompts: Programs, dataset: Dataset, split: str) -> np.ndarray:
    """Return the probability that the best answer to each prompt is right: float64, shape (n,)."""
    texts = progress("best possible", prompts.to_strings())
    return np.array([posterior(prompt, dataset, split).by_behavior()[1].max() for prompt in texts])


def surprise(programs: Programs, prompt_length: np.ndarray, dataset: Dataset, split: str) -> np.ndarray:
    """Return minus the log-probability of each definition given its prompt, in nats: float64, shape (n,).

    No model can have a lower mean.
    """
    surprises = []
    texts = progress("best possible", programs.to_strings())
    for text, length in zip(texts, prompt_length.tolist(), strict=True):
        allowed = posterior(text[:length], dataset, split)
        # Each function has one spelling, in the sampler too, so the text is among the definitions.
        row = allowed.definitions.to_strings().index(text[length:])
        surprises.append(-np.log(allowed.probability[row]))
    return np.array(surprises)


# There are few examples with numbers.
@lru_cache(maxsize=4096)
def _that_fit(kind: int, example: str) -> np.ndarray:
    """Return which functions of a kind give the result of an example: int64, ascending."""
    return np.flatnonzero(are_true(join(example.encode(), functions_of(kind).definitions)))


# As JSON, because a section of a config has no hash.
@cache
def behavior_of(kind: int, dataset: str) -> np.ndarray:
    """Return what the functions of a kind compute on the fresh inputs of a dataset, given as JSON."""
    return behavior(functions_of(kind).definitions, fresh_calls(dataset)[KINDS[kind][2]])
