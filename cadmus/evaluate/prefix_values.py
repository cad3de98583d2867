r"""The value of each prefix of a completion: can it still be continued to one that solves its question?

Only a world whose right completions are known can say. The candidates are the prefix itself and
continuations that the question lists; the grade decides on them, so a value of 1 is always exact:

======================  ============================  ====================================================
question                continuations                 a value of 0 means
======================  ============================  ====================================================
comparators             the reference                 no completion solves it
written answers, trace  the reference, its numbers    no completion solves it
                        in any spelling
equality                all expressions that are      no completion solves it
                        no longer than the first
complete algorithm      the definitions of the        no definition of the grammar, nor the completion
                        grammar                       itself, solves it
subroutines definition  the reference, all that are   none of these solves it; exact if two more
                        two instructions longer, and  instructions would make the body too long
                        some arithmetic
random                  the reference, and all that   none of these solves it
                        are two instructions longer
======================  ============================  ====================================================

A prefix is also worth 1 if the completion itself solves the question, so values never rise.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import compress
from typing import NamedTuple

import numpy as np

from cadmus.config import Dataset
from cadmus.evaluate.continuations import Asked
from cadmus.evaluate.criteria import Completed, fits_examples
from cadmus.evaluate.posterior import Posterior, posterior
from cadmus.evaluate.questions import Question
from cadmus.model.induction import computes
from cadmus.programs import Programs
from cadmus.templates.complete_algorithm import functions_of, kind_of

AT_ONCE = 64
"""Candidates of a prefix that are graded before it is known whether one of them is right."""


class PrefixValues(NamedTuple):
    """The value of each prefix of a completion: how likely the best continuation is to solve the question.

    Both arrays have an entry for each of 0 to ``len(completion)`` instructions, and a last one for ending
    there. Values never rise.
    """

    solvable: np.ndarray
    """True if a right completion begins with the prefix, judged by the reference: bool."""
    probability: np.ndarray
    """For induction, the probability that the best continuation is right, given the examples alone; of the
    empty prefix, the best possible of docs/grading.md. For other questions ``solvable``. float64."""


def prefix_values(question: Question, completed: Completed, split: str) -> list[PrefixValues]:
    """Return the values of the prefixes of each completion; the split is that of the tasks."""
    decided = solvable(question, completed)
    expected = (
        [values.astype(float) for values in decided] if question.fits is None else credence(completed, split)
    )
    return [*map(PrefixValues, decided, expected)]


def solvable(question: Question, completed: Completed) -> list[np.ndarray]:
    """Tell which prefixes of each completion, from the empty one on, a right completion begins with.

    Bool, shape (length + 2,) each, True and then False; the last entry is that of ending the completion.
    """
    prompts, texts = completed.prompts.to_strings(), completed.texts
    asked = [Asked(*row, completed.dataset) for row in zip(prompts, completed.reference_texts, strict=True)]
    longest = np.full(len(texts), -1)
    for length in range(max(map(len, texts), default=-1), -1, -1):
        rows = [row for row in np.flatnonzero(longest < 0).tolist() if length <= len(texts[row])]
        left = {row: _candidates(question, asked[row], texts[row][:length]) for row in rows}
        while left := {
            row: candidates for row, candidates in left.items() if candidates and longest[row] < 0
        }:
            pairs = [(row, text) for row, candidates in left.items() for text in candidates[:AT_ONCE]]
            tried, written = np.array([row for row, _ in pairs]), [text for _, text in pairs]
            longest[tried[question.solves(_ended(completed, tried, written))]] = length
            left = {row: candidates[AT_ONCE:] for row, candidates in left.items()}
    solved = question.solves(completed)
    return [
        np.append(np.arange(len(text) + 1) <= last, end)
        for text, last, end in zip(texts, longest, solved, strict=True)
    ]


def _candidates(question: Question, asked: Asked, prefix: str) -> list[str]:
    """Return distinct completions that begin with a prefix and have the form of an answer."""
    room = asked.dataset.max_length - len(asked.prompt)
    texts = [prefix]
    if asked.reference.startswith(prefix):
        texts.append(asked.reference)
    texts += (prefix + rest for rest in question.extensions(asked, prefix))
    return [text for text in dict.fromkeys(texts) if len(text) <= room and question.form.fullmatch(text)]


def credence(completed: Completed, split: str) -> list[np.ndarray]:
    """Return the probability that the best continuation of each prefix is right, given the examples alone.

    float64, shape (length + 2,) each, never rising; as in :func:`solvable`, the last entry is that of ending.
    """
    values = []
    for row, (prompt, text) in enumerate(zip(completed.prompts.to_strings(), completed.texts, strict=True)):
        prefixes = [text[:length] for length in range(len(text) + 1)]
        fits = fits_examples(_ended(completed, np.full(len(prefixes), row), prefixes))
        allowed, spellings = _beliefs(prompt, completed.dataset.model_dump_json(), split)
        ended = np.zeros(len(prefixes))
        ended[fits] = allowed.credence(computes(prompt, [*compress(prefixes, fits)], completed.dataset))
        functions = functions_of(kind_of(prompt))
        rows = [functions.beginning(prefix.lstrip(";")) for prefix in prefixes]
        best = np.maximum([spellings[range_].max(initial=0) for range_ in rows], ended)
        value = np.append(best, ended[-1] * completed.ended[row])
        values.append(np.maximum.accumulate(value[::-1])[::-1])
    return values


# As JSON, because a section of a config has no hash. Completions of a prompt are graded together.
@lru_cache(maxsize=64)
def _beliefs(prompt: str, dataset: str, split: str) -> tuple[Posterior, np.ndarray]:
    """Return the posterior, and the probability of what each spelling in the grammar computes."""
    section, functions = Dataset.model_validate_json(dataset), functions_of(kind_of(prompt))
    allowed = posterior(prompt, section, split)
    probability = np.zeros(len(functions.definitions))
    probability[allowed.rows] = allowed.credence(allowed.behavior)
    fits = np.array([*map(len, functions.spellings)]) <= section.max_length - len(prompt)
    return allowed, probability[functions.spelled] * fits


def _ended(completed: Completed, rows: np.ndarray, texts: Sequence[str]) -> Completed:
    """Return texts that end by themselves, as completions of some rows."""
    references, lengths = completed.references.take(rows), completed.prompt_length[rows]
    ended = np.ones(len(rows), np.bool_)
    return Completed(references, lengths, Programs.from_strings(texts), ended, completed.dataset)
