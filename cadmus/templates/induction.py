r"""Induction: examples as a prompt, and a vote among sampled definitions by what they compute.

Examples leave several functions open, and a model knows more than its likeliest text: the same function has
many. So definitions are sampled, those that the VM finds true are grouped by what they compute on fresh
inputs, and the largest group answers (as in AlphaCode, Li et al. 2022).
"""

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from cadmus import isa
from cadmus.config import Dataset
from cadmus.errors import InputError
from cadmus.programs import Programs
from cadmus.templates.answers import NUMERAL_MAX, number_text
from cadmus.templates.behavior import DEFINITION, behavior, closed, fresh_calls
from cadmus.templates.complete_algorithm import calls_in
from cadmus.vm.verifying import verified

Value = int | tuple[int, ...]
_SUCH_AS = "'[1, 2, 3] -> 6'"
_SHORTEST = len(r"\L;")  # a definition that uses its argument


class Induced(NamedTuple):
    """Sampled definitions that compute the same."""

    definition: str
    """The most frequent one: a completion of the prompt, without the end."""
    votes: int
    """Samples among them."""


class Example(NamedTuple):
    """Arguments of a function, numbers or sequences, and its result."""

    text: str
    arguments: tuple[Value, ...]
    result: Value


def read_examples(texts: Sequence[str]) -> list[Example]:
    """Read examples such as ``[1, 2, 3] -> 6``, ``3 -> 7`` or ``[1, 2, 3], 4 -> 10``."""
    examples = [_read(text) for text in texts]
    if not examples:
        raise InputError(f"examples: none; give at least one, such as {_SUCH_AS}")
    first = examples[0]
    by_arguments: dict[tuple[Value, ...], Example] = {}
    for example in examples:
        kinds = [[type(value) for value in (*each.arguments, each.result)] for each in (first, example)]
        if kinds[0] != kinds[1]:
            problem = "differ in their number of arguments, or in what is a number and what a sequence"
            raise InputError(f"examples: {example.text!r} and {first.text!r} {problem}")
        same = by_arguments.setdefault(example.arguments, example)
        if same.result != example.result:
            raise InputError(f"examples: {same.text!r} and {example.text!r} contradict each other; drop one")
    if isinstance(first.result, tuple) and [type(value) for value in first.arguments] != [tuple]:
        problem = "only a function of one sequence gives a sequence"
        raise InputError(f"examples: {first.text!r}: {problem}; write numbers as results")
    return examples


def prompt_of(examples: Sequence[Example]) -> str:
    """Return a prompt of complete_algorithm with the examples, as the template writes them."""
    first = examples[0]
    call = "f"
    if len(first.arguments) == 2:
        call = "l" if isinstance(first.arguments[0], tuple) else "F"
    # Results of predicates are labels in the template; examples with 0 and 1 alone are taken for these.
    labels = call == "f" and all(example.result in (0, 1) for example in examples)
    return "".join(
        "".join(map(_written, example.arguments)) + call + _answer(example.result, labels)
        for example in examples
    )


def induce(model: Any, examples: str | Sequence[str], k: int, temperature: float, seed: int) -> list[Induced]:
    """Sample definitions for examples and return those that fit them, by votes; see :meth:`Cadmus.induce`."""
    prompt = examples if isinstance(examples, str) else prompt_of(read_examples(examples))
    if len(prompt) + _SHORTEST > model.max_length:
        most = f"programs of this model have at most {model.max_length}"
        raise InputError(f"examples: are {len(prompt)} instructions, and {most}; give fewer or shorter ones")
    completions, ended = model.complete([prompt], samples=k, temperature=temperature, seed=seed)
    groups = votes(prompt, completions, ended, Dataset()).values()
    induced = [Induced(Counter(texts).most_common(1)[0][0], len(texts)) for texts in groups]
    return sorted(induced, key=lambda group: -group.votes)  # stable: of equals the first that was sampled


def votes(prompt: str, completions: Programs, ended: np.ndarray, dataset: Dataset) -> dict[int, list[str]]:
    """Return the definitions among completions that fit the examples of a prompt, by what they compute.

    ``ended`` tells which completions ended: bool, shape (n,). ``dataset`` decides the fresh inputs.
    """
    prompts = Programs.from_strings([prompt] * len(completions))
    true = verified(prompts, completions, ended)
    texts = completions.take(np.flatnonzero(true)).to_strings()
    texts = [text for text in texts if DEFINITION.fullmatch(text)]
    groups: dict[int, list[str]] = defaultdict(list)
    for text, group in zip(texts, computes(prompt, texts, dataset).tolist(), strict=True):
        groups[group].append(text)
    return groups


def computes(prompt: str, definitions: list[str], dataset: Dataset) -> np.ndarray:
    """Return a number for each definition of a prompt, equal if they compute the same: int64, shape (n,)."""
    calls = fresh_calls(dataset.model_dump_json())[calls_in(prompt)]
    return behavior(closed(definitions), calls)


def _read(text: str) -> Example:
    try:
        arguments, results = (_values(part) for part in text.split("->"))
    except (ValueError, RecursionError):
        wanted = f"ARGUMENTS -> RESULT, numbers or lists of numbers in JSON, such as {_SUCH_AS}"
        raise InputError(f"examples: {text!r}: must be {wanted}") from None
    if len(results) != 1 or not 1 <= len(arguments) <= 2:
        raise InputError(f"examples: {text!r}: must have one or two arguments and one result")
    if isinstance(arguments[-1], tuple) and len(arguments) == 2:
        raise InputError(f"examples: {text!r}: a second argument must be a number")
    for value, low, high in (
        *((value, -1, 10) for value in arguments),
        (*results, -NUMERAL_MAX, NUMERAL_MAX),
    ):
        numbers = value if isinstance(value, tuple) else (value,)
        if not all(low <= number <= high for number in numbers):
            kind = "arguments" if high == 10 else "results"
            raise InputError(
                f"examples: {text!r}: {kind} must be from {low} to {high}, as in training programs"
            )
        if len(numbers) > isa.MAX_SEQUENCE_LENGTH:
            raise InputError(f"examples: {text!r}: a sequence has at most {isa.MAX_SEQUENCE_LENGTH} elements")
    return Example(" ".join(text.split()), arguments, results[0])


def _values(part: str) -> tuple[Value, ...]:
    """Return the numbers and sequences of numbers between commas; raises ValueError for anything else."""
    items = json.loads(f"[{part}]")
    if not all(type(number) is int for item in items for number in (item if type(item) is list else [item])):
        raise ValueError("not a number")
    return tuple(tuple(item) if type(item) is list else item for item in items)


def _written(value: Value) -> str:
    """Write an argument in literals."""
    if isinstance(value, tuple):
        return "u" + "".join(f"{_written(element)}b" for element in value)
    return "Z" if value == -1 else number_text(value)


def _answer(result: Value, label: bool) -> str:
    if label:
        return "" if result else "!"
    if isinstance(result, tuple):
        return "u" + "".join(f"{number_text(element)}b" for element in result) + "Y"
    return f"{number_text(result)}="
