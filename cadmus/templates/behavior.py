r"""Functions by what they compute: two definitions are the same one if they agree on fresh inputs.

A text says little about a function: ``\2*;`` and ``\E+;`` are the same one. Induction draws functions in one
spelling and is graded by this comparison; a posterior over functions and the votes of samples are sums over
its classes, and an OOD rule keeps functions out of training by it.
"""

import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import NamedTuple

import numpy as np

from cadmus.config import Dataset
from cadmus.programs import Programs, join
from cadmus.templates.draw import Draw, definition
from cadmus.templates.grammar import Grammar
from cadmus.tools import generator
from cadmus.vm.compiled import execute


def _sequence(draw: Draw, n: int) -> Programs:
    return draw.sequence(n, draw.dataset.templates.complete_algorithm.sequence_length)


def _short_sequence(draw: Draw, n: int) -> Programs:
    """Draw sequences for functions whose result is a sequence as well."""
    low, high = draw.dataset.templates.complete_algorithm.sequence_length
    return draw.sequence(n, (low, max(low, high // 2)))


CALLS: dict[str, Callable[[Draw, int], Programs]] = {
    "label or reduce": lambda draw, k: join(_sequence(draw, k), b"f"),
    "calculate": lambda draw, k: join(draw.literal(k), b"f"),
    "calculate with two": lambda draw, k: join(draw.literal(k), draw.literal(k), b"F"),
    "fold": lambda draw, k: join(_sequence(draw, k), draw.literal(k), b"l"),
    "change": lambda draw, k: join(_short_sequence(draw, k), b"f"),
    "map": lambda draw, k: join(_short_sequence(draw, k), b"m"),
    "filter": lambda draw, k: join(_short_sequence(draw, k), b"w"),
}
"""Samplers of calls, by what the function does."""
SAME_INPUTS = {
    "calculate": "calculate",
    "map": "calculate",
    "filter": "calculate",
    "calculate with two": "calculate with two",
    "fold": "calculate with two",
    "label or reduce": "label or reduce",
    "change": "label or reduce",
}
"""Calls with the inputs by which the functions of each kind of calls are told apart."""

DEFINITION = re.compile(r";*\\[^;]*;*")
"""A completion that is one definition, with stray ``;``, which do nothing."""
FRESH_INPUTS = 32
"""Inputs on which two functions must agree."""
_AT_ONCE = 1 << 13  # functions called at once, for memory: each with all fresh inputs
_DEFINITION = r"\\([^;]*);?"
_KNOWN: dict[tuple[str | None, str], float] = {}
"""Places by body and name of the calls; there are fewer than a million in a sampled shard."""


@cache
def fresh_calls(dataset: str) -> dict[str, Programs]:
    """Return :data:`FRESH_INPUTS` distinct calls of each kind in complete_algorithm.

    They are drawn as the examples are, the same for all programs. Of the 12 calls with one number, each is
    there, and some are repeated. The dataset is JSON, because a section of a config has no hash and training
    asks in every step.
    """
    draw = Draw(generator(0, "fresh inputs"), Dataset.model_validate_json(dataset))
    calls = {}
    for name, sampler in CALLS.items():
        # Many times as many, so that enough are distinct and every single number is there.
        distinct = list(dict.fromkeys(sampler(draw, 32 * FRESH_INPUTS).to_strings()))
        calls[name] = Programs.from_strings(distinct[i % len(distinct)] for i in range(FRESH_INPUTS))
    return calls


def closed(texts: Iterable[str]) -> Programs:
    """Return definitions, each with the ``;`` that it may lack at the end of a program."""
    return Programs.from_strings(text.rstrip(";") + ";" for text in texts)


def behavior(definitions: Programs, calls: Programs) -> np.ndarray:
    """Return a number for each definition, equal for those that agree on all calls: int64, shape (n,)."""
    numbers = np.empty(len(definitions), np.int64)
    for start in range(0, len(definitions), _AT_ONCE):
        part = definitions.take(np.arange(start, min(start + _AT_ONCE, len(definitions))))
        function, call = (side.ravel() for side in np.indices((len(part), len(calls))))
        outcome = execute(join(part.take(function), calls.take(call)))
        # All but the first, the truth.
        results = np.column_stack(outcome[1:]).astype(np.int64).reshape(len(part), -1)
        # A random linear hash; sums wrap at 64 bits, which tell different results apart.
        factors = np.random.default_rng(0).integers(1, 2**62, results.shape[1])
        numbers[start : start + len(part)] = results @ factors
    return numbers


class Functions(NamedTuple):
    """The functions of a grammar."""

    definitions: Programs
    """m definitions, each function in its likeliest spelling, of these the shortest."""
    probability: np.ndarray
    """Of each function, in all its spellings: float64, shape (m,)."""
    spellings: tuple[str, ...]
    """All definitions of the grammar, in alphabetical order."""
    spelled: np.ndarray
    """The function of each spelling, a row of ``definitions``: int64, shape (len(spellings),)."""

    def draw(self, rng: np.random.Generator, n: int) -> Programs:
        """Draw ``n`` definitions."""
        return self.definitions.take(rng.choice(len(self.probability), size=n, p=self.probability))


@cache
def functions(grammar: Grammar, calls: str) -> Functions:
    """Return all functions of a grammar that the calls of this name tell apart."""
    texts = sorted(grammar.texts, key=lambda text: (-grammar.texts[text], len(text), text))
    definitions = definition(Programs.from_strings(texts))
    computed = behavior(definitions, fresh_calls(Dataset().model_dump_json())[calls])
    # The first of each class, in the order above, is its likeliest spelling.
    _, first, function = np.unique(computed, return_index=True, return_inverse=True)
    probability = np.bincount(function, [grammar.texts[text] for text in texts])
    spellings, spelled = zip(*sorted(zip(definitions.to_strings(), function, strict=True)), strict=True)
    return Functions(definitions.take(first), probability / probability.sum(), spellings, np.array(spelled))


def fractions(programs: Programs) -> np.ndarray:
    r"""Return what the function that each program defines is hashed to, from 0 to 1: float64, shape (n,).

    It depends alone on what the function computes of numbers, pairs or sequences, as the program calls it,
    and not on the dataset. NaN where a program does not define one function and call it.
    """
    import polars as pl

    text = pl.col("text").str
    rest = text.replace(_DEFINITION, "").str
    call = rest.extract("([fFlmw])")
    one = text.count_matches("\\", literal=True) == 1
    body = pl.when(one & call.is_not_null()).then(text.extract(_DEFINITION))
    inputs = call.replace_strict({"F": "calculate with two", "l": "calculate with two"}, default="calculate")
    inputs = pl.when((call == "f") & rest.contains("[uI]")).then(pl.lit("label or reduce")).otherwise(inputs)
    keys = pl.DataFrame({"text": programs.to_arrow()}).select(body.alias("body"), inputs.alias("call"))
    # Programs of a shard share functions, and each takes 32 calls.
    distinct = keys.drop_nulls().unique(maintain_order=True)
    for name, calls in fresh_calls(Dataset().model_dump_json()).items():
        bodies = [body for body in distinct.filter(call=name)["body"] if (body, name) not in _KNOWN]
        computed = behavior(Programs.from_strings(rf"\{body};" for body in bodies), calls)
        # The golden ratio (Fibonacci hashing) scatters sums; those of small results are small.
        scattered = computed.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        of_bodies = (scattered >> np.uint64(11)) / 2.0**53  # a float64 has 53 bits
        _KNOWN.update(zip(((body, name) for body in bodies), of_bodies.tolist(), strict=True))
    return np.array([_KNOWN.get(key, np.nan) for key in keys.iter_rows()], np.float64)
