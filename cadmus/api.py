"""Functions for notebooks, training with rewards and evaluation harnesses, offered by the package itself."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from enum import StrEnum
from itertools import chain, count, islice, repeat, takewhile
from operator import add, itemgetter
from typing import Any, NamedTuple, overload

import numpy as np

from cadmus import isa
from cadmus.config import LONGEST_PROGRAM, TEMPLATES, Dataset, validate
from cadmus.dataset import sampler
from cadmus.dataset.splits import Seen
from cadmus.errors import Defect, InputError, check_counts, check_types, suggest
from cadmus.evaluate.criteria import Completed
from cadmus.evaluate.prefix_values import PrefixValues, values_of_prefixes
from cadmus.evaluate.questions import Question, Task, questions_of
from cadmus.programs import Programs
from cadmus.tools import seed_of

Section = Dataset | Mapping[str, Any] | None
"""The section ``dataset`` of a config, some of its fields, or None for the defaults."""
CHUNK = 2048
"""Tasks per random stream of :func:`tasks`; changing it changes every task."""
_BATCHES = 64
"""Batches of candidates without a single task, after which :func:`tasks` gives up."""
_DEFAULTS = Dataset()
_INSTRUCTIONS = isa.BY_SYMBOL.keys() - {isa.END}


class Reason(StrEnum):
    """Why a completion is solved or not."""

    SOLVED = "solved"  # It answers the question.
    FITS = "fits"  # Induction: it fits the examples of the prompt; the reference is another function.
    UNANSWERED = "unanswered"  # The program is true, but the completion does not answer the question.
    NOT_ENDED = "not_ended"  # It was cut off before its end.
    DROPS = "drops"  # It drops a value (`_`).
    FALSE = "false"  # The program is not true.
    UNKNOWN_SYMBOL = "unknown_symbol"  # A character is not an instruction.
    AFTER_END = "after_end"  # Text follows the end `.`.
    TOO_LONG = "too_long"  # The program is longer than `dataset.max_length`.
    BAD_TASK = "bad_task"  # Prompt and reference are not a program that can be asked the question.


class Verdict(NamedTuple):
    """The grade of a completion. It is truthy if the completion is solved."""

    solved: bool
    """The headline metric of docs/grading.md, and the reward for training."""
    verified: bool
    """The lenient metric: the program is true, and the completion ended and drops nothing."""
    reason: Reason

    def __bool__(self) -> bool:
        return self.solved


_VERIFIED = (Reason.SOLVED, Reason.FITS, Reason.UNANSWERED)
_VERDICTS = {reason: Verdict(reason is Reason.SOLVED, reason in _VERIFIED, reason) for reason in Reason}


def sample(
    template: str, n: int, *, seed: int = 1, split: str = "train", dataset: Section = None
) -> list[str]:
    """Sample ``n`` true programs of a template, without their end ``.``, as ``cadmus sample`` prints them.

    They are distinct if the template has enough.

    Args:
        template: one of :data:`cadmus.config.TEMPLATES`.
        seed: the same seed gives the same programs on every machine.
        split: train, validation, test, or ood if ``dataset`` has rules; splits share no programs.
        dataset: ranges and lengths: the section ``dataset`` of a config, such as
            ``load_config("config/laptop.yaml").dataset``, or some of its fields, such as
            ``{"values": {"low": -40, "high": 40}}``; None for the defaults.
    """
    check_counts(n=n, seed=seed)
    return sampler.sample(_section(dataset), seed, template, split, 0, n).programs.to_strings()


def tasks(
    template: str,
    split: str = "train",
    *,
    question: str | None = None,
    seed: int = 1,
    start: int = 0,
    dataset: Section = None,
) -> Iterator[Task]:
    """Yield programs of a template as tasks, without end.

    Tasks are sampled in chunks of 2,048, each from its own random stream. A program may come back in another
    batch of candidates. A task takes well below 1 ms. In validation and test, one of random takes about 5 ms,
    as few random programs are true and have a prompt.

    Args:
        template: one of :data:`cadmus.config.TEMPLATES`.
        split: train, validation, test, or ood if ``dataset`` has rules. A program, prompt and reference
            together, is in one split alone, whatever the seed; a prompt may be in several.
        question: where programs are cut and what solves them. Each template has a question of its own name,
            the default. equality also has ``equality_comparator``, subroutines ``subroutines_definition``.
        seed: the same seed gives the same tasks on every machine.
        start: number of tasks to skip, at the cost of at most one chunk.
        dataset: ranges and lengths, as for :func:`sample`.
    """
    check_counts(seed=seed, start=start)
    section = _section(dataset)
    sampler.check_names(section, template, split)
    name = question or template
    questions = questions_of(template)
    if name not in questions:
        raise InputError(f"{template} has no question {name!r}; {suggest(name, questions)}")
    first, skipped = divmod(start, CHUNK)
    source = seed_of(seed, "tasks")
    chunks = (_chunk(section, source, template, split, name, number) for number in count(first))
    return islice(chain.from_iterable(chunks), skipped, None)


@overload
def verify(task: Task, completion: str | None, *, ended: bool = ..., dataset: Section = ...) -> Verdict: ...
@overload
def verify(
    task: Collection[Task],
    completion: Collection[str | None],
    *,
    ended: bool | Collection[bool] = ...,
    dataset: Section = ...,
) -> list[Verdict]: ...
def verify(
    task: Task | Collection[Task],
    completion: str | Collection[str | None] | None,
    *,
    ended: bool | Collection[bool] = True,
    dataset: Section = None,
) -> Verdict | list[Verdict]:
    """Grade completions of tasks exactly as ``cadmus evaluate completions`` does.

    No text raises an error, however bad: the verdict says what is wrong with it.

    Args:
        task: a task, or a list of n.
        completion: what follows the prompt, or a list of n. One end ``.`` at its end is ignored. None is an
            empty completion that did not end.
        ended: whether the completion ended by itself, or a list of n; one value applies to all n. Pass False
            for one that a token limit cut off.
        dataset: the ``dataset`` that the tasks were sampled with. It limits the length of programs, and fresh
            inputs of induction are drawn from it.
    """
    section = _section(dataset)
    if isinstance(task, Task):
        return _verdicts([task], [completion], [ended], section)[0]
    n = len(tasks := _listed("task", task))
    is_one = isinstance(ended, bool | np.bool_)
    ends = [ended] * n if is_one else _listed("ended", ended, n)
    return _verdicts(tasks, _listed("completion", completion, n), ends, section)


def _listed(name: str, value: Any, n: int | None = None) -> list[Any]:
    """Return an argument of :func:`verify` as a list, of length ``n`` if it is not None."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Collection):
        form = "a Task or a list of them" if n is None else f"a list of {n}, one for each task"
        fix = "; make one with Task(prompt, reference, question)" if n is None else ""
        raise InputError(f"{name}: must be {form}, got {type(value).__name__}{fix}")
    if n not in (None, len(value)):
        raise InputError(f"{name}: must be a list of {n}, one for each task, got a list of {len(value)}")
    return [*value]


def _verdicts(tasks: list[Any], completions: list[Any], ended: list[Any], dataset: Dataset) -> list[Verdict]:
    """Grade n completions of n tasks."""
    check_types("task", tasks, Task, "a Task, such as Task(prompt, reference, question)")
    check_types("completion", completions, str | None, "text, or None if there is none")
    check_types("ended", ended, bool | np.bool_, "True or False")
    fields = [list(map(itemgetter(column), tasks)) for column in range(3)]
    for name, values in zip(Task._fields, fields, strict=False):
        check_types(f"{name} of task", values, str, "text")
    prompts, references, questions = fields
    known = {name: question for template in TEMPLATES for name, question in questions_of(template).items()}
    for name in set(questions) - known.keys():
        raise InputError(f"no question {name!r}; {suggest(name, known)}")
    texts = [(text or "").removesuffix(isa.END) for text in completions]
    ends = [bool(end) and text is not None for end, text in zip(ended, completions, strict=True)]
    reasons = [_unreadable(*row, dataset.max_length) for row in zip(prompts, texts, references, strict=True)]
    for name in dict.fromkeys(questions):
        rows = [row for row, asked in enumerate(questions) if asked == name and reasons[row] is None]
        answers = [(prompts[row], texts[row], references[row], ends[row]) for row in rows]
        for row, reason in zip(rows, _grade(known[name], answers, dataset), strict=True):
            reasons[row] = reason
    return [_VERDICTS[reason] for reason in reasons if reason]


def prefix_values(task: Task, completion: str | None, *, dataset: Section = None) -> PrefixValues:
    """Return the value of each prefix of a completion, an exact process reward.

    Values are 0 after text that cannot be executed, and for a task that its own reference does not solve.
    Completion and dataset are those of :func:`verify`.
    """
    check_types("completion", [completion], str | None, "text, or None if there is none")
    section, text = _section(dataset), (completion or "").removesuffix(isa.END)
    values = PrefixValues(np.zeros(len(text) + 2, np.bool_), np.zeros(len(text) + 2))
    if verify(task, task.reference, dataset=section):
        known = "".join(takewhile(_INSTRUCTIONS.__contains__, text[: section.max_length - len(task.prompt)]))
        program, written = (Programs.from_strings([each]) for each in (task.prompt + task.reference, known))
        completed = Completed(program, np.array([len(task.prompt)]), written, np.array([True]), section)
        size = len(known) + (2 if known == text and completion is not None else 1)
        # A prompt that `tasks` did not make may have no kind of function.
        with suppress(Defect):
            (found,) = values_of_prefixes(task.question, completed, task.split or "test")
            for column, of_text in zip(found, values, strict=True):
                of_text[:size] = column[:size]
    return values


def _unreadable(prompt: str, completion: str, reference: str, max_length: int) -> Reason | None:
    """Return what is wrong with the text of a completion or its task, None if it can be executed."""
    task = prompt + reference
    if not prompt or len(task) > LONGEST_PROGRAM or not _INSTRUCTIONS.issuperset(task):
        return Reason.BAD_TASK
    if len(prompt) + len(completion) > max_length:
        return Reason.TOO_LONG
    if isa.END in completion:
        return Reason.AFTER_END
    return None if _INSTRUCTIONS.issuperset(completion) else Reason.UNKNOWN_SYMBOL


def _grade(question: Question, rows: list[tuple[str, str, str, bool]], dataset: Dataset) -> list[Reason]:
    """Grade readable completions of one question: rows of prompt, completion, reference and ended."""
    if not rows:
        return []
    prompts, completions, references, ended = zip(*rows, strict=True)
    completed = Completed(
        Programs.from_strings(map(add, prompts, references)),
        np.fromiter(map(len, prompts), np.int64, len(rows)),
        Programs.from_strings(completions),
        np.array(ended, np.bool_),
        dataset,
    )
    try:
        solved = question.solves(completed)
        fits = np.zeros(len(rows), np.bool_) if question.fits is None else question.fits(completed)
        # If its own reference does not solve the question either, the task is bad, not the completion.
        bad = ~solved
        own = Completed.own(completed.references.take(bad), completed.prompt_length[bad], dataset)
        bad[bad] = ~question.solves(own)
    except Defect:
        # A reference does not have the form of the question; find it.
        half = len(rows) // 2
        if not half:
            return [Reason.BAD_TASK]
        return _grade(question, rows[:half], dataset) + _grade(question, rows[half:], dataset)
    # The first that applies is the reason.
    conditions = {
        Reason.BAD_TASK: bad,
        Reason.SOLVED: solved,
        Reason.FITS: fits,
        Reason.UNANSWERED: completed.verified,
        Reason.NOT_ENDED: ~completed.ended,
        Reason.DROPS: completed.uses_drop,
    }
    reasons = np.select(list(conditions.values()), list(conditions), Reason.FALSE)
    return list(map(Reason, reasons.tolist()))


def _chunk(dataset: Dataset, seed: int, template: str, split: str, name: str, number: int) -> Iterator[Task]:
    source = sampler.Sampler(dataset, seed, template, split, number)
    cut = questions_of(template)[name].cut
    left = CHUNK
    while left:
        samples = source.batch(Seen(sampler.BATCH))
        rows, prompt_length = (column[:left] for column in cut(samples))
        left -= len(rows)
        if left == CHUNK and source.counts.sampled == _BATCHES * sampler.BATCH:
            problem = f"{_BATCHES} batches of candidates have no {split} prompt of {name}"
            fix = f"change dataset.templates.{template}, dataset.values, dataset.max_length or dataset.ood"
            raise InputError(f"{template}: {problem}; {fix}")
        programs = samples.programs.take(rows)
        prompts = programs.prefixes(prompt_length).to_strings()
        references = programs.suffixes(prompt_length).to_strings()
        yield from map(Task, prompts, references, repeat(name), repeat(split))


def _section(dataset: Section) -> Dataset:
    values = dict(dataset) if isinstance(dataset, Mapping) else dataset
    return _DEFAULTS if values is None else validate(values, Dataset, "dataset")
