"""The questions of each template: one table for code, documents and cards.

A question cuts a program into a prompt and a completion, decides which completions solve it, and names the
subject asked about: an expression pair, a function, a sequence or the program. Intervals are clustered by
subject. A test program is a near-duplicate if a training program of its template has the same subject.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cadmus.evaluate import criteria
from cadmus.evaluate.criteria import Completed, second_expressions
from cadmus.evaluate.posterior import best_possible
from cadmus.programs import Programs, Samples
from cadmus.templates.behavior import DEFINITION, FRESH_INPUTS
from cadmus.vm.compiled import execute, ignore, leave_nan
from cadmus.vm.verifying import drops

if TYPE_CHECKING:
    import polars as pl

    from cadmus.config import Dataset

Cut = Callable[[Samples], tuple[np.ndarray, np.ndarray]]
"""Returns the rows that have the question, and the lengths of their prompts; both int64, shape (k,)."""
_WRITTEN = re.compile(criteria.WRITTEN_VALUE)


def _where_not_written(samples: Samples) -> tuple[np.ndarray, np.ndarray]:
    """Leave out prompts that are their own answers, such as ``u1b2b`` and a literal appended."""
    prompts = samples.programs.prefixes(samples.prompt_length).to_strings()
    rows = np.flatnonzero([_WRITTEN.fullmatch(prompt) is None for prompt in prompts])
    return rows, samples.prompt_length[rows].astype(np.int64)


def _as_sampled(samples: Samples) -> tuple[np.ndarray, np.ndarray]:
    return np.arange(len(samples)), samples.prompt_length.astype(np.int64)


def _before_the_last(samples: Samples) -> tuple[np.ndarray, np.ndarray]:
    return np.arange(len(samples)), samples.programs.lengths - 1


def _after_the_first_expression(samples: Samples) -> tuple[np.ndarray, np.ndarray]:
    """Leave out programs whose own second expression looks like a copy of the first."""
    starts = second_expressions(samples.programs)
    firsts = samples.programs.prefixes(starts).to_strings()
    seconds = samples.programs.suffixes(starts).to_strings()
    pairs = zip(seconds, firsts, strict=True)
    rows = np.flatnonzero([not criteria.copies(second[:-1], first) for second, first in pairs])
    return rows, starts[rows]


def _before_a_comparator(samples: Samples) -> tuple[np.ndarray, np.ndarray]:
    rows = np.flatnonzero(~_definition_is_last(samples.programs))
    return rows, samples.prompt_length[rows].astype(np.int64)


def _before_a_definition(samples: Samples) -> tuple[np.ndarray, np.ndarray]:
    """Leave out long functions, and those that do not depend on an argument."""
    rows = np.flatnonzero(_definition_is_last(samples.programs))
    programs, length = samples.programs.take(rows), samples.prompt_length[rows].astype(np.int64)
    fair = ~criteria.inlines(programs.prefixes(length), programs.suffixes(length)) & criteria.varies(programs)
    return rows[fair], length[fair]


def _where_not_true_yet(samples: Samples) -> tuple[np.ndarray, np.ndarray]:
    """Cut random programs near the middle, where the prompt is not true and the rest repairs it.

    At most half of the prompts leave nothing, because any literal makes those true.
    """
    programs = samples.programs
    row, length, empty = _false_prompts(programs)
    # By program: prompts that leave something before those that do not, then those nearest the middle.
    order = np.lexsort((abs(2 * length - programs.lengths[row]), empty, row))
    row, length, empty = row[order], length[order], empty[order]
    best = _first_fair(programs, row, length)
    leaving, leaving_nothing = best[~empty[best]], best[empty[best]]
    best = np.sort(np.concatenate([leaving, leaving_nothing[: len(leaving)]]))
    return row[best], length[best]


def _false_prompts(programs: Programs) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return row and length of all prompts that are not true yet, and whether they leave nothing."""
    prefixes, row, length = programs.all_prefixes()
    outcome = execute(prefixes)
    fits = (length < programs.lengths[row]) & ~outcome.true & ~drops(programs.take(row).suffixes(length))
    # A NAN may be a call that the rest defines, and a definition could drop its arguments unseen.
    fits[fits] = ~leave_nan(prefixes.take(fits))
    return row[fits], length[fits], outcome.count[fits] == 0


def _first_fair(programs: Programs, row: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Return the first of each program's prompts after which its own rest ignores no value: int64."""
    chosen: list[np.ndarray] = []
    indices = np.arange(len(row))
    # In rounds, because executing the rest of every prompt takes much longer.
    while len(indices):
        best = indices[np.flatnonzero(np.diff(row[indices], prepend=-1))]
        fair = ~ignore(programs.take(row[best]), length[best])
        chosen.append(best[fair])
        indices = np.setdiff1d(indices[~np.isin(row[indices], row[best[fair]])], best)
    return np.sort(np.concatenate([np.empty(0, np.int64), *chosen]))


def _definition_is_last(programs: Programs) -> np.ndarray:
    return programs.data[programs.offsets[1:] - 1] == ord(";")


_COMPARATOR = "it is the comparator that holds, and nothing else"
_ANSWER = (
    "it writes the value that the prompt leaves, a decimal number or a sequence of them, and compares the "
    "two with `=` or `Y`; the outputs are those of the right answer. No other arithmetic is allowed, because "
    "it could repeat the query"
)


@dataclass(frozen=True)
class Question:
    """A question about the programs of a template; by default, it asks for a written answer."""

    template: str
    prompt: str = "before the answer, unless the prompt is its own answer"
    """End of the prompt, as text for documents."""
    solved: str = _ANSWER
    """Condition on a completion, as text for documents."""
    subject: str = "program"
    """Subject: "expression pair", "function", "sequence" or "program"."""
    cut: Cut = _where_not_written
    solves: Callable[[Completed], np.ndarray] = criteria.written_answer
    """Returns the completions that solve it: bool, shape (n,)."""
    form: re.Pattern[str] = criteria.ANSWER
    """Pattern of all completions that can solve it."""
    open: bool = False
    """True if a prompt has many right answers. If it has one, executing completions until one is true gives
    the answer away."""
    fits: Callable[[Completed], np.ndarray] | None = None
    """For induction, returns the completions that fit the examples of the prompt: bool, shape (n,)."""
    ceiling: Callable[[Programs, "Dataset", str], np.ndarray] | None = None
    """Returns the probability that the best possible answer to prompts of a split is solved: float64, shape
    (n,). Without it, it is 1, as the prompt determines what is right."""


_asks_for_comparator = partial(
    Question,
    prompt="before the comparator",
    solved=_COMPARATOR,
    solves=criteria.comparator,
    form=criteria.COMPARATOR,
)

QUESTIONS: dict[str, Question] = {
    "basic_math": _asks_for_comparator("basic_math", subject="expression pair", cut=_as_sampled),
    "equality": Question(
        "equality",
        "after the first expression, unless the second looks like a copy of it",
        "it is an expression of literals and arithmetic and `=`, the program leaves one 1, and the "
        "expression is not a copy: it is no longer than the first, shares no "
        f"{criteria.RUN} instructions in a row with it and does not use all its literals",
        "expression pair",
        _after_the_first_expression,
        criteria.equal_expression,
        criteria.EXPRESSION,
        open=True,
    ),
    "equality_comparator": _asks_for_comparator(
        "equality",
        solved=f"{_COMPARATOR}. It is always `=`, as in the paper's example, so a constant solves all",
        subject="expression pair",
        cut=_before_the_last,
    ),
    "less_greater": _asks_for_comparator("less_greater", subject="expression pair", cut=_as_sampled),
    "subroutines": _asks_for_comparator("subroutines", subject="function", cut=_before_a_comparator),
    "subroutines_definition": Question(
        "subroutines",
        "before the last definition, after its call and the comparison, unless it is long or its value does "
        "not depend on an argument",
        "it is one definition, the comparison in the prompt holds, the program leaves one 1, the value of "
        "the definition depends on each argument, and its body has fewer instructions than the prompt has "
        "outside of definitions: `\\A-V+;`, which only copies from `AfV=`, is too long",
        "function",
        _before_a_definition,
        criteria.definition,
        DEFINITION,
        open=True,
    ),
    "random": Question(
        "random",
        "near the middle, where the program is not true yet but leaves no NAN, and the rest drops no value",
        "the completed program is true",
        "program",
        _where_not_true_yet,
        criteria.repaired,
        criteria.ANYTHING,
        open=True,
    ),
    "basic_sequences": Question("basic_sequences", subject="sequence"),
    "advanced_sequences": Question("advanced_sequences", subject="sequence"),
    "apply_labels": Question(
        "apply_labels",
        "before the label",
        f"{_ANSWER}. If the right answer is a bare label (nothing or `!`), only that label solves it",
        "function",
    ),
    "complete_algorithm": Question(
        "complete_algorithm",
        "before the definition",
        "it is one definition that gives the results of all examples (*fits examples*) and agrees with the "
        f"right function on {FRESH_INPUTS} fresh inputs, drawn as the examples are, or on all 12 single "
        "numbers",
        "function",
        _as_sampled,
        criteria.induced,
        DEFINITION,
        open=True,
        fits=criteria.fits_examples,
        ceiling=best_possible,
    ),
}
"""Questions by name, those of Table 3 in its order; other templates ask for a written answer."""


class Task(NamedTuple):
    """A program that is asked a question: one of :func:`cadmus.tasks`, or made from columns of your own."""

    prompt: str
    """The program up to where its question begins; a model continues it."""
    reference: str
    """The rest of the program, without the end ``.``; one of the right completions."""
    question: str
    """A question of docs/grading.md, such as ``equality_comparator``."""
    split: str | None = None
    """The split that it was sampled from, if known."""

    @property
    def template(self) -> str:
        """The template that asks the question."""
        return named(self.question).template


def questions_of(template: str) -> dict[str, Question]:
    """Return the questions of a template by name."""
    questions = {name: question for name, question in QUESTIONS.items() if question.template == template}
    return questions or {template: named(template)}


def named(name: str) -> Question:
    """Return the question of a name; that of an added template has its name."""
    return QUESTIONS.get(name) or Question(name)


def title(question: str) -> str:
    """Return the title of a question or a baseline in tables and figures.

    >>> title("equality_comparator"), title("basic_math")
    ('equality, comparator', 'basic math')
    """
    template = named(question).template
    rest = question.removeprefix(template).removeprefix("_")
    return ", ".join(part.replace("_", " ") for part in (template, rest) if part)


def in_order(results: "pl.DataFrame", *by: "str | pl.Expr") -> "pl.DataFrame":
    """Sort rows by question as in Table 3, with those of added templates last, then by other columns."""
    import polars as pl  # here, because training, which grades its samples, does without Polars

    known = pl.Enum(list(dict.fromkeys([*QUESTIONS, *results["question"]])))
    return results.sort(pl.col("question").cast(known), *by, maintain_order=True)


def definitions() -> list[list[str]]:
    """Return one row per question for documents: title, end of the prompt, condition on a completion."""
    return [[title(name), question.prompt, question.solved] for name, question in QUESTIONS.items()]


def subjects_of(question: Question, programs: Programs, prompt_length: np.ndarray) -> "pl.Series":
    """Return the subject of each program as text: strings, shape (n,).

    Sequences are those of the prompt, because an answer may also be one.
    """
    import polars as pl

    searched = programs.prefixes(prompt_length) if question.subject == "sequence" else programs
    texts = pl.Series("program", searched.to_arrow())
    if question.subject == "expression pair":
        starts = pl.Series("start", second_expressions(programs))
        pair = pl.DataFrame([texts, starts]).select(
            pl.col("program").str.slice(0, pl.col("start")).alias("first"),
            pl.col("program").str.slice(pl.col("start")).str.head(-1).alias("second"),
        )
        # In either order: the comparator follows from the other program's.
        sides = pl.min_horizontal("first", "second"), pl.max_horizontal("first", "second")
        return pair.select(pl.concat_str(*sides, separator=" ")).to_series()
    pattern = {"function": r"\\[^;]*;?", "sequence": r"u(?:[0-9tZ]b)*|[0-9]I"}.get(question.subject)
    return texts if pattern is None else texts.str.extract_all(pattern).list.join(" ")
