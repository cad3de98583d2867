"""Conditions on completions that solve a question, decided by execution.

Every condition is stricter than *verified*: the completed program is true, the completion ended, and it does
not drop (``_``) a value.
"""

from functools import cached_property

import numpy as np

from cadmus import isa
from cadmus.common.seeds import generator
from cadmus.config import Dataset
from cadmus.evaluate.parsing import is_expression, second_expressions
from cadmus.programs import Programs, join, stack
from cadmus.templates.complete_algorithm import CALLS, calls_in
from cadmus.templates.draw import Draw
from cadmus.vm.compiled import same_outputs, verdicts

DROP = "_"
FRESH_INPUTS = 32
"""Inputs besides the examples on which an induced function must agree with the reference."""
_WRITTEN = set("0123456789tZ+-*/%xn~ub:")
"""Instructions that write a value out; none reads what the prompt asks about."""
_BARE_LABELS = {"", "!"}


class Completed:
    """Completions of the programs of one question, and what executing them gives.

    Attributes:
        references: n programs, each with its own completion.
        prompt_length: int64, shape (n,), instructions in each prompt.
        completions: n completions, without the end.
        ended: bool, shape (n,), whether the completion ended by itself.
        dataset: distribution of the fresh inputs.
    """

    def __init__(
        self,
        references: Programs,
        prompt_length: np.ndarray,
        completions: Programs,
        ended: np.ndarray,
        dataset: Dataset,
    ) -> None:
        self.references = references
        self.prompt_length = prompt_length
        self.completions = completions
        self.ended = ended
        self.dataset = dataset

    @cached_property
    def prompts(self) -> Programs:
        """The prompts."""
        return self.references.prefixes(self.prompt_length)

    @cached_property
    def full(self) -> Programs:
        """The completed programs."""
        return join(self.prompts, self.completions)

    @cached_property
    def texts(self) -> list[str]:
        """The completions."""
        return self.completions.to_strings()

    @cached_property
    def reference_texts(self) -> list[str]:
        """The completions of the references."""
        return self.references.suffixes(self.prompt_length).to_strings()

    @cached_property
    def uses_drop(self) -> np.ndarray:
        """Completions with the instruction ``_``: bool, shape (n,)."""
        return np.array([DROP in text for text in self.texts], np.bool_)

    @cached_property
    def verified(self) -> np.ndarray:
        """True programs whose completion ended and drops nothing: bool, shape (n,)."""
        return _all(verdicts(self.full), self.ended, ~self.uses_drop)

    @cached_property
    def exact(self) -> np.ndarray:
        """Completions that are those of the references: bool, shape (n,)."""
        pairs = zip(self.texts, self.reference_texts, strict=True)
        return _all(np.array([ours == theirs for ours, theirs in pairs], np.bool_), self.ended)

    @cached_property
    def next_token(self) -> np.ndarray:
        """Completions whose first token, which may be the end, is that of the reference: bool, shape (n,)."""
        started = (self.completions.lengths > 0) | self.ended
        pairs = zip(self.texts, self.reference_texts, strict=True)
        return _all(np.array([ours[:1] == theirs[:1] for ours, theirs in pairs], np.bool_), started)

    @cached_property
    def same_outputs(self) -> np.ndarray:
        """Completed programs that leave the outputs of the reference: bool, shape (n,)."""
        return same_outputs(self.full, self.references)


def comparator(of: Completed) -> np.ndarray:
    """The next token is the one comparator that holds."""
    return _all(of.verified, of.next_token)


def equal_expression(of: Completed) -> np.ndarray:
    """The completion is an expression that does not repeat the first one, and ``=``."""
    starts = second_expressions(of.references)
    firsts = of.references.prefixes(starts).to_strings()
    shaped = [
        text[-1:] == "=" and is_expression(text[:-1]) and not _repeats(text[:-1], first)
        for text, first in zip(of.texts, firsts, strict=True)
    ]
    return _all(of.verified, of.same_outputs, np.array(shaped, np.bool_))


def written_answer(of: Completed) -> np.ndarray:
    """The completion writes the value that the prompt leaves, and ``=`` or ``Y``."""
    shaped = [
        text == reference if reference in _BARE_LABELS else _writes_a_value(text)
        for text, reference in zip(of.texts, of.reference_texts, strict=True)
    ]
    return _all(of.verified, of.same_outputs, np.array(shaped, np.bool_))


def definition(of: Completed) -> np.ndarray:
    """The completion defines subroutines only, and the comparison in the prompt holds."""
    only = [not isa.split_definitions(text)[0] for text in of.texts]
    return _all(of.verified, of.same_outputs, np.array(only, np.bool_))


def fits_examples(of: Completed) -> np.ndarray:
    """The subroutines of the completion give the results of all examples in the prompt."""
    return _all(of.verified, same_outputs(join(of.prompts, _definitions(of.completions)), of.references))


def induced(of: Completed) -> np.ndarray:
    """The subroutines fit the examples and agree with the reference on fresh inputs."""
    solved = fits_examples(of)
    rows = np.flatnonzero(solved)
    prompts = of.prompts.take(rows).to_strings()
    ours = _definitions(of.completions.take(rows))
    theirs = _definitions(of.references.suffixes(of.prompt_length).take(rows))
    calls = fresh_calls(of.dataset)
    # Row i asks for the k-th fresh input of program i // FRESH_INPUTS.
    fresh = stack([calls[calls_in(prompt)] for prompt in prompts] or [Programs.from_strings([])])
    of_row = np.repeat(np.arange(len(rows)), FRESH_INPUTS)
    agrees = same_outputs(join(ours.take(of_row), fresh), join(theirs.take(of_row), fresh))
    solved[rows] = agrees.reshape(-1, FRESH_INPUTS).all(1)
    return solved


def fresh_calls(dataset: Dataset) -> dict[str, Programs]:
    """Return :data:`FRESH_INPUTS` distinct calls of each kind in complete_algorithm.

    They are drawn as the examples are, the same for all programs. Of the 12 calls with one number, each is
    there, and some are repeated.
    """
    draw = Draw(generator(0, "fresh inputs"), dataset)
    calls = {}
    for name, sampler in CALLS.items():
        distinct = list(dict.fromkeys(sampler(draw, 32 * FRESH_INPUTS).to_strings()))
        calls[name] = Programs.from_strings(distinct[i % len(distinct)] for i in range(FRESH_INPUTS))
    return calls


def true_program(of: Completed) -> np.ndarray:
    """The program is true and drops nothing."""
    return of.verified


def _repeats(second: str, first: str) -> bool:
    # A single literal is in many expressions without repeating it.
    return second == first if len(first) == 1 else first in second


def _all(*conditions: np.ndarray) -> np.ndarray:
    met: np.ndarray = np.logical_and.reduce(conditions)
    return met


def _writes_a_value(text: str) -> bool:
    return text[-1:] in ("=", "Y") and set(text[:-1]) <= _WRITTEN and is_expression(text[:-1])


def _definitions(completions: Programs) -> Programs:
    r"""Return the definitions of each completion, closed: ``\body;`` each."""
    bodies = (isa.split_definitions(text)[1] for text in completions.to_strings())
    return Programs.from_strings("".join(f"\\{body};" for body in found) for found in bodies)
