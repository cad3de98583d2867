"""Conditions on completions that solve a question, decided by execution.

Every condition is stricter than *verified* (:mod:`cadmus.vm.verifying`).
"""

import re
from dataclasses import dataclass
from functools import cached_property

import numba
import numpy as np

from cadmus import isa
from cadmus.config import Dataset
from cadmus.errors import Defect
from cadmus.programs import Programs, join, offsets_of
from cadmus.templates.behavior import DEFINITION, behavior, closed, fresh_calls
from cadmus.templates.complete_algorithm import calls_in
from cadmus.vm.compiled import execute, leave_nan, same_outputs
from cadmus.vm.values import NUMBER
from cadmus.vm.verifying import drops, verified

COMPARATOR = re.compile(r"[<=>]")
"""The completion of a comparison."""
EXPRESSION = re.compile(r"[0-9tZ+\-*/%xn~]+=")
"""Literals, arithmetic and ``=``: no definition can replace a literal, nothing reads the first value."""
NUMERAL = r"(?:t(?:[1-9]\+)?|[0-9]|Z)(?:t\*(?:[1-9]\+)?)*~?"
WRITTEN_VALUE = rf"(?:{NUMERAL}|u(?:{NUMERAL}(?:[0-9]:)?b)*)"
"""A number in decimal (Horner's rule), or a sequence of such numbers. Other arithmetic could repeat the query
of the prompt instead of answering it: ``u1b2b4+`` is ``u14+b24+b``."""
_COMPARED = rf"{WRITTEN_VALUE}[=Y]"
ANSWER = re.compile(rf"{_COMPARED}|!?")
"""A written value and the comparison with it or, where the reference is one, a bare label."""
ANYTHING = re.compile(r".*")
# Tighter rules would refuse a fifth of the honest answers (log: a grade that cannot be copied, and baselines
# that try).
RUN = 3
"""Instructions in a row that an expression may not share with the one it equals."""
_ONE_ARGUMENT = tuple("0123456789tZ")
_FEW = "Z0259t"  # pairs of all twelve would be 144 calls of a program
_TWO_ARGUMENTS = tuple(first + second for first in _FEW for second in _FEW)
_CALLS, _TWO_CALLS = (
    ("f", "g", "h", ""),
    ("F", "G", "", ""),
)  # of each subroutine, with one argument and with two

# By byte of the symbol, because compiled code cannot read the table.
_INPUTS, _OUTPUTS = np.zeros(128, np.int64), np.zeros(128, np.int64)
for _row in isa.INSTRUCTIONS:
    _INPUTS[ord(_row.symbol)], _OUTPUTS[ord(_row.symbol)] = _row.inputs, _row.outputs


@dataclass(eq=False)
class Completed:
    """Completions of the programs of one question, and what executing them gives."""

    references: Programs
    """n programs, each with its own completion."""
    prompt_length: np.ndarray
    """Instructions in each prompt: int64, shape (n,)."""
    completions: Programs
    """n completions, without the end."""
    ended: np.ndarray
    """True where the completion ended by itself: bool, shape (n,)."""
    dataset: Dataset
    """Distribution of the fresh inputs."""

    @classmethod
    def own(cls, programs: Programs, prompt_length: np.ndarray, dataset: Dataset) -> "Completed":
        """Return programs with their own completions."""
        ended = np.ones(len(prompt_length), np.bool_)
        return cls(programs, prompt_length, programs.suffixes(prompt_length), ended, dataset)

    @cached_property
    def prompts(self) -> Programs:
        return self.references.prefixes(self.prompt_length)

    @cached_property
    def full(self) -> Programs:
        """The completed programs."""
        return join(self.prompts, self.completions)

    @cached_property
    def texts(self) -> list[str]:
        return self.completions.to_strings()

    @cached_property
    def reference_texts(self) -> list[str]:
        """The completions of the references."""
        return self.references.suffixes(self.prompt_length).to_strings()

    @cached_property
    def uses_drop(self) -> np.ndarray:
        """Completions with the instruction ``_``: bool, shape (n,)."""
        return drops(self.completions)

    @cached_property
    def verified(self) -> np.ndarray:
        """Completions that ended and drop no value, of true programs: bool, shape (n,)."""
        return verified(self.prompts, self.completions, self.ended)

    @cached_property
    def exact(self) -> np.ndarray:
        """Completions that are those of the references: bool, shape (n,)."""
        return (np.array(self.texts) == np.array(self.reference_texts)) & self.ended

    @cached_property
    def next_token(self) -> np.ndarray:
        """Completions whose first token, which may be the end, is that of the reference: bool, shape (n,)."""
        started = (self.completions.lengths > 0) | self.ended
        # Of strings, this type keeps the first character.
        return (np.array(self.texts, "U1") == np.array(self.reference_texts, "U1")) & started

    @cached_property
    def same_outputs(self) -> np.ndarray:
        """Verified programs that leave the outputs of the reference: bool, shape (n,)."""
        same = self.verified.copy()
        rows = np.flatnonzero(same)
        same[rows] = same_outputs(self.full.take(rows), self.references.take(rows))
        return same


def comparator(completed: Completed) -> np.ndarray:
    """The completion is the one comparator that holds, and nothing else."""
    return completed.verified & _has_form(completed, COMPARATOR)


def equal_expression(completed: Completed) -> np.ndarray:
    """The completion is an expression in its own right, which does not copy the first one, and ``=``."""
    starts = second_expressions(completed.references)
    firsts = completed.references.prefixes(starts).to_strings()
    # Only of literals and arithmetic: `\0;E=\=` compares the value of the prompt with itself.
    shaped = [
        EXPRESSION.fullmatch(text) is not None and is_expression(text[:-1]) and not copies(text[:-1], first)
        for text, first in zip(completed.texts, firsts, strict=True)
    ]
    return completed.same_outputs & np.array(shaped, np.bool_)


def copies(second: str, first: str) -> bool:
    """Tell whether an expression could be the first one with changes that do not alter its value.

    A copy is longer, as ``0+`` and double negation make it; shares :data:`RUN` instructions in a row; or uses
    all literals, as swapped or regrouped operands do.

    >>> copies("33+", "29x6n"), copies("29x60+n", "29x6n"), copies("692xn", "29x6n")
    (False, True, True)
    """
    if len(second) > len(first) or any(first[i : i + RUN] in second for i in range(len(first) - RUN + 1)):
        return True
    literals = [symbol for symbol in first if symbol in _ONE_ARGUMENT]
    return all(second.count(symbol) >= literals.count(symbol) for symbol in literals)


def written_answer(completed: Completed) -> np.ndarray:
    """The completion writes the value that the prompt leaves, and ``=`` or ``Y``."""
    # A bare label is right only where the reference is one; elsewhere it would say nothing of the value.
    shaped = [
        text == reference if reference in ("", "!") else re.fullmatch(_COMPARED, text) is not None
        for text, reference in zip(completed.texts, completed.reference_texts, strict=True)
    ]
    return completed.same_outputs & np.array(shaped, np.bool_)


def definition(completed: Completed) -> np.ndarray:
    """The completion is a short definition that uses its arguments; the comparison in the prompt holds."""
    shaped = _has_form(completed, DEFINITION) & ~inlines(completed.prompts, completed.completions)
    solved = completed.same_outputs & shaped
    # References vary: programs in which they do not are not asked.
    rows = np.flatnonzero(solved & ~completed.exact)
    solved[rows] = varies(completed.full.take(rows))
    return solved


def fits_examples(completed: Completed) -> np.ndarray:
    """The completion is one definition, which gives the results of all examples in the prompt."""
    return completed.same_outputs & _has_form(completed, DEFINITION)


def induced(completed: Completed) -> np.ndarray:
    """The definition fits the examples and agrees with the reference on fresh inputs."""
    solved = fits_examples(completed)
    # An exact completion computes what the reference does.
    rows = np.flatnonzero(solved & ~completed.exact)
    ours = closed(completed.texts[row] for row in rows)
    theirs = closed(completed.reference_texts[row] for row in rows)
    names = np.array([calls_in(prompt) for prompt in completed.prompts.take(rows).to_strings()])
    for name, calls in fresh_calls(completed.dataset.model_dump_json()).items():
        alike = np.flatnonzero(names == name)
        solved[rows[alike]] = behavior(ours.take(alike), calls) == behavior(theirs.take(alike), calls)
    return solved


def repaired(completed: Completed) -> np.ndarray:
    """The completion is verified, and the prompt leaves no NAN, whose arguments a definition could drop."""
    return completed.verified & ~leave_nan(completed.prompts)


def _has_form(completed: Completed, form: re.Pattern[str]) -> np.ndarray:
    return np.array([form.fullmatch(text) is not None for text in completed.texts], np.bool_)


def inlines(prompts: Programs, completions: Programs) -> np.ndarray:
    r"""Tell which definitions are long enough to hold the text of their prompt: bool, shape (n,).

    ``\8-2+;`` needs no understanding of ``8f2=``: it undoes the argument and adds the value. A definition
    like it has at least as many instructions as the prompt outside of definitions.
    """
    top, (delimiters, inside) = ~np.logical_or(*_definitions(prompts)), _definitions(completions)
    return _count(inside & ~delimiters, completions) >= _count(top, prompts)


def varies(programs: Programs) -> np.ndarray:
    """Tell whether the value of the last subroutine depends on each of its arguments: bool, shape (n,).

    It is called with twelve arguments, or 36 pairs of them if the program calls it with two.
    """
    delimiters, inside = _definitions(programs)
    kept = delimiters | inside
    data = slice(programs.offsets[0], programs.offsets[-1])
    definitions = Programs(programs.data[data][kept[data]], offsets_of(_count(kept, programs)))
    opens = _count(delimiters & ~inside & (programs.data == ord("\\")), programs)
    # A fourth subroutine has no call.
    last = np.where(opens > 0, np.minimum(opens, len(_CALLS)), len(_CALLS)) - 1
    has_two = (last < 2) & programs.contain(Programs.from_strings(_TWO_CALLS).take(last))
    dependent = np.zeros(len(programs), np.bool_)
    for calls, arguments, rows, shape in (
        (_CALLS, _ONE_ARGUMENT, np.flatnonzero(~has_two), (-1, len(_ONE_ARGUMENT), 1)),
        (_TWO_CALLS, _TWO_ARGUMENTS, np.flatnonzero(has_two), (-1, len(_FEW), len(_FEW))),
    ):
        every = np.repeat(rows, len(arguments))
        written = Programs.from_strings(arguments).take(np.tile(np.arange(len(arguments)), len(rows)))
        call = Programs.from_strings(calls).take(last[every])
        outcome = execute(join(definitions.take(every), b";", written, call))
        # NAN and sequences count as one value: a function of numbers has to tell numbers apart.
        values = np.where(outcome.kind == NUMBER, outcome.values[:, 0], np.iinfo(np.int32).min).reshape(shape)
        dependent[rows] = (values != values[:, :1]).any((1, 2))
        if shape[2] > 1:
            dependent[rows] &= (values != values[:, :, :1]).any((1, 2))
    return dependent


def _definitions(programs: Programs) -> tuple[np.ndarray, np.ndarray]:
    r"""Tell which instructions are ``\`` or ``;``, and which come after ``\`` without a ``;``: both bool.

    One of each byte of ``programs.data``; :func:`cadmus.isa.split_definitions` does so for one program.
    """
    data = programs.data
    delimiters = (data == ord("\\")) | (data == ord(";"))
    # The start of a program ends a definition as `;` does.
    latest = np.where(delimiters, np.arange(len(data)), -1)
    starts = programs.offsets[:-1][programs.lengths > 0]
    before = np.concatenate([[-1], np.maximum.accumulate(latest)])[:-1]
    start = np.zeros(len(data), np.int64)
    start[starts] = starts
    start = np.maximum.accumulate(start)
    return delimiters, (before >= start) & (data[before] == ord("\\"))


def _count(mask: np.ndarray, programs: Programs) -> np.ndarray:
    """Count the instructions of each program that a mask of ``programs.data`` has: int64, shape (n,)."""
    counts = offsets_of(mask)
    return counts[programs.offsets[1:]] - counts[programs.offsets[:-1]]


def second_expressions(programs: Programs) -> np.ndarray:
    """Return the position at which the second expression of each comparison starts: int64, shape (n,).

    It is the shortest run of instructions before the comparator that leaves exactly one value and pops none
    from below.

    >>> second_expressions(Programs.from_strings(["941-*55*2+="])).tolist()
    [5]
    """
    starts = _second_expressions(programs.data, programs.offsets)
    if (starts < 1).any():
        (program,) = programs.take(np.flatnonzero(starts < 1)[:1]).to_strings()
        raise Defect(f"{program!r} does not end in an expression and a comparator")
    return starts


def is_expression(instructions: str) -> bool:
    """Tell whether instructions leave exactly one value and take none from the stack; ``2+`` does not."""
    data = np.frombuffer(instructions.encode("ascii"), np.uint8)
    return bool(_leaves_one_value(data, 0, len(data)))


@numba.njit(cache=True)
def _leaves_one_value(data: np.ndarray, start: int, stop: int) -> bool:  # pragma: no cover - compiled
    depth = 0
    for k in range(start, stop):
        if depth < _INPUTS[data[k]]:
            return False
        depth += _OUTPUTS[data[k]] - _INPUTS[data[k]]
    return depth == 1


@numba.njit(cache=True)
def _second_expressions(data: np.ndarray, offsets: np.ndarray) -> np.ndarray:  # pragma: no cover - compiled
    starts = np.zeros(len(offsets) - 1, np.int64)
    for i in range(len(starts)):
        end = offsets[i + 1] - 1
        for start in range(end - 1, offsets[i], -1):  # the first expression has at least one instruction
            if _leaves_one_value(data, start, end):
                starts[i] = start - offsets[i]
                break
    return starts
