"""Values of prefixes: can what is written so far still become a right completion?

Each question has candidates that begin with a prefix, and its grade decides which of them are right.
docs/grading.md says for each question whether a prefix that begins none of them is surely lost.
"""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from itertools import compress, islice, product
from typing import NamedTuple

import numpy as np

from cadmus import isa
from cadmus.config import OPERATORS, Dataset
from cadmus.evaluate.criteria import NUMERAL, Completed, copies, fits_examples, is_expression
from cadmus.evaluate.posterior import behavior_of, credence, posterior
from cadmus.evaluate.questions import named
from cadmus.programs import Programs, join
from cadmus.templates.answers import number_text
from cadmus.templates.complete_algorithm import functions_of, kind_of
from cadmus.templates.induction import computes
from cadmus.vm.compiled import are_true, execute
from cadmus.vm.values import NUMBER

_WRITTEN_NUMBER = re.compile(rf"({NUMERAL})((?:[0-9]:)?)(?=[b=Y])")


class PrefixValues(NamedTuple):
    """Values of the prefixes of a completion, 0 to all of its instructions, and of its end; never rising."""

    solvable: np.ndarray
    """True if a right completion begins with the prefix: bool; docs/grading.md says what is exact."""
    probability: np.ndarray
    """The same as float64 or, for induction, the probability of the best continuation, given the examples."""


def values_of_prefixes(question: str, completed: Completed, split: str) -> list[PrefixValues]:
    """Return the values of each completion; the posterior of induction is that of a ``split``."""
    solvable = _solvable(question, completed)
    induced = named(question).fits is not None
    return list(map(PrefixValues, solvable, _credence(completed, split) if induced else solvable))


def _solvable(name: str, completed: Completed) -> list[np.ndarray]:
    """Tell which prefixes of each completion, from the empty one on, a right completion begins with.

    Bool, shape (length + 2,) each, True and then False; the last entry is that of ending the completion.
    """
    question, candidates = named(name), CANDIDATES.get(name, _respelled)
    columns = completed.prompts.to_strings(), completed.reference_texts, completed.texts
    asked, lengths = [*zip(*columns, strict=True)], completed.completions.lengths
    longest = np.full(len(asked), -1)
    for length in range(lengths.max(initial=-1), -1, -1):
        tried: list[tuple[int, str]] = []
        for row in np.flatnonzero((longest < 0) & (lengths >= length)).tolist():
            prompt, reference, text = asked[row]
            known = {text[:length], *candidates(prompt, reference, text[:length], completed.dataset)}
            known |= {reference} if reference.startswith(text[:length]) else set()
            short = (each for each in known if len(prompt + each) <= completed.dataset.max_length)
            tried += [(row, each) for each in short if question.form.fullmatch(each)]
        if tried:
            rows = np.array([row for row, _ in tried])
            texts = Programs.from_strings(text for _, text in tried)
            own = completed.references.take(rows), completed.prompt_length[rows]
            written = Completed(*own, texts, np.ones(len(rows), np.bool_), completed.dataset)
            longest[rows[question.solves(written)]] = length
    ends = zip(completed.texts, longest, question.solves(completed), strict=True)
    return [np.append(np.arange(len(text) + 1) <= last, solved) for text, last, solved in ends]


def _respelled(prompt: str, reference: str, prefix: str, dataset: Dataset) -> Iterable[str]:
    """Return the prefix with the ends of the reference, whose numbers have any spelling."""
    ends: set[str] = set()
    rest, stop = "", len(reference)
    for match in reversed([*_WRITTEN_NUMBER.finditer(reference)]):
        rest = reference[match.end() : stop] + rest
        spellings = _spellings(int(execute(Programs.from_strings([match[1]])).values[0, 0]))
        # An element without a decoration may say so.
        labelled = [text + label for text in spellings for label in ({match[2]} if match[2] else {"", "0:"})]
        ends.update(text[start:] + rest for text in labelled for start in range(len(text)))
        # The rest is in the shortest spelling, because a program has a maximum length.
        rest = min(labelled, key=len) + rest
        stop = match.start()
    rest = reference[:stop] + rest
    return (prefix + end for end in ends.union(rest[start:] for start in range(len(rest) + 1)))


def _spellings(value: int) -> list[str]:
    """Return the shortest spelling of a number, and texts whose ends are the shortest ends of all others.

    Others begin with zeros, or with ``Z`` and nines: -1 is also -10 + 9.
    """
    power = 10 ** (len(str(abs(value))) + 1)
    after = number_text(power + abs(value)), number_text(11 * power - abs(value))
    return ["Z" if value == -1 else number_text(value), *after, *(text + "~" for text in after)]


def _equal_expression(prompt: str, reference: str, prefix: str, dataset: Dataset) -> Iterable[str]:
    """Return an expression that has the value of the prompt and does not copy it, and ``=``."""
    texts = _expressions()[int(execute(Programs.from_strings([prompt])).values[0, 0])]
    others = (text for text in texts[_beginning(texts, prefix)] if not copies(text, prompt))
    return (text + "=" for text in islice(others, 1))


@cache
def _expressions() -> dict[int, list[str]]:
    """Return all expressions of up to five instructions by value, each list in alphabetical order."""
    classes = ("0123456789tZ", OPERATORS, "~")
    shapes = (shape for length in range(1, 6) for shape in product(classes, repeat=length))
    valid = (shape for shape in shapes if is_expression("".join(symbols[0] for symbols in shape)))
    texts = sorted("".join(text) for shape in valid for text in product(*shape))
    outcome = execute(Programs.from_strings(texts))
    by_value: dict[int, list[str]] = defaultdict(list)
    for text, kind, value in zip(texts, outcome.kind, outcome.values[:, 0].tolist(), strict=True):
        if kind == NUMBER:
            by_value[value].append(text)
    return by_value


def _two_more(prompt: str, reference: str, prefix: str, dataset: Dataset) -> Iterable[str]:
    """Return the prefix with any two instructions that make the program true, without drops."""
    true = are_true(join((prompt + prefix).encode(), _words()))
    return (prefix + word for word in _words().take(true).to_strings())


@cache
def _words() -> Programs:
    symbols = sorted(isa.BY_SYMBOL.keys() - {isa.END, isa.DROP})
    return Programs.from_strings(
        "".join(word) for length in range(3) for word in product(symbols, repeat=length)
    )


def _function(prompt: str, reference: str, prefix: str, dataset: Dataset) -> Iterable[str]:
    """Return the definitions of the grammar that compute what the reference does."""
    functions, opened = functions_of(kind_of(prompt)), prefix.lstrip(";")
    rows = _beginning(functions.spellings, opened)
    behavior = behavior_of(kind_of(prompt), dataset.model_dump_json())[functions.spelled[rows]]
    right = behavior == computes(prompt, [reference], dataset)
    return (prefix + text.removeprefix(opened) for text in compress(functions.spellings[rows], right))


def _credence(completed: Completed, split: str) -> list[np.ndarray]:
    """Return the probability that the best definition with each prefix is right, given the examples alone.

    Float64, in the form of :func:`_solvable`. Definitions are those of the grammar, and the completion
    itself.
    """
    prompts, texts, dataset = completed.prompts.to_strings(), completed.texts, completed.dataset
    fits = fits_examples(completed)
    ended = np.zeros(len(texts))
    ended[fits] = credence([*compress(prompts, fits)], [*compress(texts, fits)], dataset, split)
    values = []
    for prompt, text, last in zip(prompts, texts, ended, strict=True):
        functions = functions_of(kind_of(prompt))
        probability = _by_spelling(prompt, dataset.model_dump_json(), split)
        rows = (_beginning(functions.spellings, text[:length].lstrip(";")) for length in range(len(text) + 1))
        value = np.array([*(probability[each].max(initial=0) for each in rows), last])
        values.append(np.maximum.accumulate(value[::-1])[::-1])
    return values


# As JSON, because a section of a config has no hash. Completions of a prompt come together.
@lru_cache(maxsize=64)
def _by_spelling(prompt: str, dataset: str, split: str) -> np.ndarray:
    """Return the probability of what each definition of the grammar computes: float64."""
    functions = functions_of(kind_of(prompt))
    allowed = posterior(prompt, Dataset.model_validate_json(dataset), split)
    behavior, probability = allowed.by_behavior()
    of_allowed = probability[np.searchsorted(behavior, allowed.behavior)]
    known = dict(zip(allowed.definitions.to_strings(), of_allowed, strict=True))
    by_function = np.array([known.get(text, 0.0) for text in functions.definitions.to_strings()])
    return by_function[functions.spelled]


def _beginning(texts: Sequence[str], prefix: str) -> slice:
    """Return the rows of those of sorted texts that begin with a prefix."""
    return slice(bisect_left(texts, prefix), bisect_left(texts, prefix + "\x7f"))


CANDIDATES: dict[str, Callable[[str, str, str, Dataset], Iterable[str]]] = {
    "equality": _equal_expression,
    "subroutines_definition": _two_more,
    "random": _two_more,
    "complete_algorithm": _function,
}
"""Completions that begin with a prefix, by prompt, reference, prefix and distribution; other questions
ask for an answer, of which there are spellings."""
