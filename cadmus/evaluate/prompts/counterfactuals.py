r"""Counterfactuals: pairs of prompts, and the answer to one if a variable had its value in the other.

The VM is a causal model of a prompt. A variable of it, such as the value of a call, is known after some
token, and decides the answer together with the rest of the prompt. If a model computes the same variable, the
part of its state that holds it can be exchanged with that of another prompt, the source, and the answer must
be the counterfactual one (interchange interventions, Geiger et al. 2021).
"""

import re
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from cadmus.config import Dataset
from cadmus.dataset.sampler import sample
from cadmus.errors import InputError, check_counts, suggest
from cadmus.evaluate.prompts.comparisons import sample_comparisons
from cadmus.programs import TOKEN_OF_BYTE, Programs
from cadmus.templates.answers import numeral
from cadmus.templates.draw import comparator
from cadmus.templates.expressions import HALF
from cadmus.tools import generator, seed_of
from cadmus.vm.compiled import execute
from cadmus.vm.reference import stacks
from cadmus.vm.values import NUMBER

_SAMPLED = 16  # test programs sampled per pair, because few have the form of a variable
_PAIRS_AT_ONCE = 1 << 18  # far more than n, as many do not change the answer; changing it changes the pairs
_CALL = re.compile(r"\\[^;\\]*;[0-9tZ]+[fF]")  # one definition, so the call is all of the left side
_AGGREGATE = re.compile(r"u(?:[0-9tZ]b)+[L$XN]")
_LENGTH = re.compile(r"u(?:[0-9tZ]b)+L")


class Candidates(NamedTuple):
    """Prompts of the test split, and a variable of each, to be paired."""

    prompts: Programs
    """n prompts."""
    token: np.ndarray
    """Index of the token after which the variable is known, from 0: int64, shape (n,), as are the others."""
    value: np.ndarray
    """Of the variable."""
    rest: np.ndarray
    """Another value that the answer depends on; 0 if there is none."""


class Variable(NamedTuple):
    """A variable of the VM."""

    template: str
    title: str
    candidates: Callable[[int, int, Dataset], Candidates]
    """Draws at least a few prompts, for ``n`` pairs, with a seed and a dataset."""
    answer: Callable[[np.ndarray, np.ndarray], np.ndarray]
    """Returns the first instruction of the answer by value and rest: uint8, shape (n,)."""


def counterfactuals(variable: str, n: int, seed: int = 0, dataset: Dataset | None = None) -> pl.DataFrame:
    """Return ``n`` pairs of test prompts, the same for every model.

    ``base`` and ``source`` are prompts; ``base_stacks`` and ``source_stacks`` are their stacks after every
    token. ``base_token`` and ``source_token``, from 0, are the tokens after which they have the variable,
    ``base_value`` and ``source_value`` its values, ``base_answer`` and ``source_answer`` the first
    instructions of their answers. ``answer`` is that of the base with the value of the source. It is not the
    base's and, if more than the variable decides, not the source's.
    """
    if variable not in VARIABLES:
        raise InputError(f"no variable {variable!r}; {suggest(variable, VARIABLES)}")
    check_counts(seed=seed, n=n)
    definition, dataset = VARIABLES[variable], dataset or Dataset()
    candidates = definition.candidates(n, seed_of(seed, "counterfactuals", variable), dataset)
    count = len(candidates.value)
    rng = generator(seed, "pairs", variable)
    base, source = rng.integers(max(count, 1), size=(2, _PAIRS_AT_ONCE if count else 0))
    own = definition.answer(candidates.value, candidates.rest)
    answer = definition.answer(candidates.value[source], candidates.rest[base])
    # A model that ignores the exchange gives the base's answer; it must not be the right one.
    fits = answer != own[base]
    # One that takes over the whole source gives the source's, which must be wrong if the rest counts.
    if candidates.rest.any():
        fits &= (answer != own[source]) & (own[source] != own[base])
    pairs = np.flatnonzero(fits)[:n]
    if len(pairs) < n:
        raise InputError(
            f"counterfactuals: {n} of {variable} are wanted, {len(pairs)} were found; ask for fewer or widen "
            "dataset.values"
        )
    prompts = [candidates.prompts.take(rows[pairs]).to_strings() for rows in (base, source)]
    columns: dict[str, Any] = {"template": [definition.template] * n, "variable": [variable] * n}
    for name, rows, texts, of_side in zip(
        ("base", "source"), (base[pairs], source[pairs]), prompts, (own[base], own[source]), strict=True
    ):
        columns |= {name: texts, f"{name}_stacks": [stacks(text) for text in texts]}
        columns |= {f"{name}_token": candidates.token[rows], f"{name}_value": candidates.value[rows]}
        columns[f"{name}_answer"] = _characters(of_side[pairs])
    return pl.DataFrame({**columns, "answer": _characters(answer[pairs])})


def first_tokens(answers: pl.Series) -> np.ndarray:
    """Return the token ids of answers of one instruction: int64, shape (n,)."""
    return TOKEN_OF_BYTE[np.frombuffer("".join(answers).encode(), np.uint8)]


def rightly_answered(model: Any, table: pl.DataFrame) -> np.ndarray:
    """Return the rows of those counterfactual pairs that a model gets right: int64, shape (k,)."""
    right = np.ones(len(table), np.bool_)
    for side in ("base", "source"):
        prompts = Programs.from_strings(table[side])
        right &= model.next_tokens(prompts) == first_tokens(table[f"{side}_answer"])
    return np.flatnonzero(right)


def _comparisons(which: str, n: int, seed: int, dataset: Dataset) -> Candidates:
    programs, sides = sample_comparisons(np.random.default_rng(seed), 2 * n, dataset, "counterfactuals")
    x, y, end = sides["x"], sides["y"], np.full(len(programs), 2 * HALF - 1)
    token, value, rest = {
        "first": (end - HALF, x, y),
        "second": (end, x, y),
        "top": (end, y, x),
        "difference": (end, x - y, np.zeros_like(x)),  # it decides alone: x > y if x - y > 0
    }[which]
    return Candidates(programs.prefixes(end + 1), token, value, rest)


def _calls(n: int, seed: int, dataset: Dataset) -> Candidates:
    samples = sample(dataset, seed, "subroutines", "test", 0, _SAMPLED * n)
    prompts = samples.programs.prefixes(samples.prompt_length.astype(np.int64))
    matches = [_CALL.match(text) for text in prompts.to_strings()]
    end = np.array([match.end() if match else 0 for match in matches])
    # An expression follows the call, so the call is one whole side.
    x, y = (np.asarray(side, np.int64) for side in (samples.x, samples.y))
    other = execute(prompts.suffixes(end))
    rows = np.flatnonzero((end > 0) & (other.count == 1) & (other.kind == NUMBER) & (other.values[:, 0] == y))
    return Candidates(prompts.take(rows), end[rows] - 1, x[rows], y[rows])


def _sequences(form: re.Pattern[str], n: int, seed: int, dataset: Dataset) -> Candidates:
    samples = sample(dataset, seed, "basic_sequences", "test", 0, _SAMPLED * n)
    prompts = samples.programs.prefixes(samples.prompt_length.astype(np.int64))
    prompts = prompts.take(
        np.flatnonzero([form.fullmatch(text) is not None for text in prompts.to_strings()])
    )
    value = execute(prompts).values[:, 0].astype(np.int64)
    # Before its instruction a length is known, and after it an aggregate.
    token = prompts.lengths - (2 if form is _LENGTH else 1)
    return Candidates(prompts, token, value, np.zeros_like(value))


def _first_of_numeral(value: np.ndarray, rest: np.ndarray) -> np.ndarray:
    numerals = numeral(value)
    return numerals.data[numerals.offsets[:-1]]


def _characters(symbols: np.ndarray) -> list[str]:
    return list(symbols.astype(np.uint8).tobytes().decode("ascii"))


VARIABLES = {
    "first": Variable("less_greater", "first number", partial(_comparisons, "first"), comparator),
    "second": Variable("less_greater", "second on the stack", partial(_comparisons, "second"), comparator),
    # The top is Y, and the rest X.
    "top": Variable(
        "less_greater", "top of the stack", partial(_comparisons, "top"), lambda y, x: comparator(x, y)
    ),
    "difference": Variable("less_greater", "difference", partial(_comparisons, "difference"), comparator),
    "call": Variable("subroutines", "value of a call", _calls, comparator),
    # Programs of one length have sequences of one length.
    "length": Variable("basic_sequences", "length", partial(_sequences, _LENGTH), _first_of_numeral),
    "aggregate": Variable("basic_sequences", "aggregate", partial(_sequences, _AGGREGATE), _first_of_numeral),
}
"""Variables by name. The numbers are known after the first expression or after both; the length of a sequence
before its instruction, an aggregate after it."""
