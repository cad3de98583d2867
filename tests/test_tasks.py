"""Programs as tasks: ``cadmus.tasks`` and ``cadmus.verify``."""

import sys
from collections.abc import Callable
from itertools import islice
from types import FrameType

import numpy as np
import polars as pl
import pytest

from cadmus import Reason, Task, Verdict, sample, tasks, verify
from cadmus.api import CHUNK
from cadmus.config import TEMPLATES, Dataset
from cadmus.dataset.splits import split_of
from cadmus.errors import InputError
from cadmus.evaluate.criteria import Completed
from cadmus.evaluate.questions import QUESTIONS
from cadmus.programs import Programs

GREATER = Task("34+6", ">", "less_greater")
INSTRUCTIONS = "0123456789tZ+-*/%xn<>=!?'BaEu\\;fghFGRmwlbcc@L$XNASVKIY:\"_sori&|~e"


def first(n: int, *arguments, **options) -> list[Task]:
    return list(islice(tasks(*arguments, **options), n))


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("split", ["train", "test"])
def test_tasks_are_programs_of_their_split_that_their_reference_solves(question, split):
    template = QUESTIONS[question].template
    found = first(40, template, split, question=question, seed=5)
    assert {(task.template, task.split, task.question) for task in found} == {(template, split, question)}
    programs = Programs.from_strings(task.prompt + task.reference for task in found)
    assert (split_of(programs, Dataset().eval_fraction) == ["train", "validation", "test"].index(split)).all()
    verdicts = verify(found, [task.reference for task in found])
    assert set(verdicts) == {Verdict(True, True, Reason.SOLVED)}


def test_the_default_question_has_the_name_of_the_template(monkeypatch):
    # The extra `sample` is without it.
    monkeypatch.setitem(sys.modules, "polars", None)
    for template in TEMPLATES:
        assert next(tasks(template)).question == template


def test_start_skips_tasks():
    everything = first(2 * CHUNK + 5, "less_greater", seed=2)
    for start in (0, 3, CHUNK - 1, CHUNK, 2 * CHUNK + 1):
        assert first(4, "less_greater", seed=2, start=start) == everything[start : start + 4]
    assert first(5, "less_greater", seed=3) != everything[:5]
    # They are not the programs of a dataset of the same seed.
    of_dataset = {*sample("less_greater", CHUNK, seed=2)}
    assert sum(task.prompt + task.reference in of_dataset for task in everything[:CHUNK]) < CHUNK / 2
    assert first(5, "less_greater", "validation", seed=2) != everything[:5]


def test_start_skips_tasks_of_a_question_with_few_prompts():
    everything = first(40, "random", "test")
    assert first(3, "random", "test", start=37) == everything[37:]


def test_the_dataset_sets_the_difficulty():
    (task,) = first(1, "less_greater", dataset={"templates": {"less_greater": {"expression_lengths": [7]}}})
    assert len(task.prompt) == 14
    assert first(3, "equality", dataset={}) == first(3, "equality", dataset=Dataset()) == first(3, "equality")


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (["equalitty"], {}, "no template 'equalitty'; did you mean 'equality'"),
        (["equality", "tset"], {}, "no split 'tset'; did you mean 'test'"),
        (["equality"], {"question": "comparator"}, "equality has no question 'comparator'; did you mean"),
        (["equality"], {"start": -1}, "start: must be a whole number of at least 0, got -1"),
        (["equality"], {"seed": -1}, "seed: must be a whole number of at least 0, got -1"),
        (["equality"], {"dataset": {"max_lenght": 3}}, "dataset: max_lenght"),
        (["equality"], {"dataset": [3]}, "dataset: "),
    ],
)
def test_tasks_reject_bad_arguments_at_once(arguments, options, message):
    with pytest.raises(InputError, match=message):
        tasks(*arguments, **options)


def test_a_question_without_prompts_is_refused(monkeypatch):
    monkeypatch.setattr("cadmus.api._BATCHES", 2)
    # Programs of one instruction have no beginning.
    dataset = {"templates": {"random": {"length": [1, 1]}}}
    with pytest.raises(InputError, match="2 batches of candidates have no train prompt of random; change"):
        next(tasks("random", dataset=dataset))


@pytest.mark.parametrize(
    ("prompt", "completion", "reference", "question", "reason"),
    [
        ("34+6", ">", ">", "less_greater", "solved"),
        ("34+6", ">.", ">", "less_greater", "solved"),
        ("34+6", "", ">", "less_greater", "unanswered"),
        ("34+6", None, ">", "less_greater", "not_ended"),
        ("34+6", ".", ">", "less_greater", "unanswered"),
        ("34+6", "=!", ">", "less_greater", "unanswered"),
        ("34+6", "<", ">", "less_greater", "false"),
        ("34+6", "__1", ">", "less_greater", "drops"),
        ("34+6", "q", ">", "less_greater", "unknown_symbol"),
        ("34+6", "é\ud800\0", ">", "less_greater", "unknown_symbol"),
        ("34+6", ">.1", ">", "less_greater", "after_end"),
        ("34+6", ">" * 60, ">", "less_greater", "too_long"),
        ("34+6", "q" * 10_000_000, ">", "less_greater", "too_long"),
        ("34q", ">", ">", "less_greater", "bad_task"),
        ("34", ">", ">.", "less_greater", "bad_task"),
        ("", ">", ">", "less_greater", "bad_task"),
        ("34+", "25+=", "61+=", "equality", "solved"),
        ("34+", "34+=", "25+=", "equality", "unanswered"),
        # The reference copies the first expression, or answers another question.
        ("34+", "2=", "34+=", "equality", "bad_task"),
        ("34+7", "<", "", "less_greater", "bad_task"),
        ("34+7", "<", "5+=", "less_greater", "bad_task"),
        ("u1b2b$", "3=", ">", "basic_sequences", "bad_task"),
        ("34+", "7=", "+", "equality", "bad_task"),
        ("12+3=", r"\0;", r"\0;", "complete_algorithm", "solved"),
        ("12+3=", r"\1;", r"\0;", "complete_algorithm", "bad_task"),
        ("2f4=3f6=", r"\2*;", r"\E+;", "complete_algorithm", "solved"),
        ("2f4=3f6=", r"\2*", r"\2*;", "complete_algorithm", "solved"),
        ("2f4=", r"\2+;", r"\2*;", "complete_algorithm", "fits"),
        ("2f4=", r"\3+;", r"\2*;", "complete_algorithm", "false"),
    ],
)
def test_verdicts_say_why(prompt, completion, reference, question, reason):
    task = Task(prompt, reference, question)
    verdict = verify(task, completion)
    verified = reason in ("solved", "fits", "unanswered")
    assert verdict == (reason == "solved", verified, reason)
    assert bool(verdict) is verdict.solved
    # A bad task does not change the verdicts on the others of its batch.
    batch = verify([GREATER, task] * 2, [">", completion] * 2)
    assert batch == [(True, True, "solved"), verdict] * 2


def test_a_completion_that_was_cut_off_is_not_solved():
    assert verify(GREATER, ">", ended=False).reason is Reason.NOT_ENDED
    cut = verify([GREATER] * 3, [">", ">", None], ended=np.array([True, False, True]))
    assert [verdict.solved for verdict in cut] == [True, False, False]


def test_a_completion_that_is_missing_does_not_solve_what_ending_at_once_solves():
    label = Task("\\0>;2f", "", "apply_labels")
    assert [verify(label, text).solved for text in ("", ".", None)] == [True, True, False]


@pytest.mark.parametrize("collection", [tuple, pl.Series, np.array])
def test_columns_of_any_kind(collection):
    texts = collection([">", "<", ">."])
    verdicts = verify((GREATER,) * 3, texts, ended=collection([True, True, True]))
    assert [verdict.solved for verdict in verdicts] == [True, False, True]


@pytest.mark.parametrize(
    ("task", "completion", "options", "message"),
    [
        (Task("1", "=", "equalitty"), "=", {}, "no question 'equalitty'; did you mean 'equality'"),
        (Task("1", "=", None), "=", {}, "question of task 0: must be text, got None"),
        ([Task("1", "=", "equality"), Task("1", 3, "equality")], ["="] * 2, {}, "reference of task 1: .* 3"),
        ("34+6", ">", {}, "task: must be a Task or a list of them, got str; make one with Task"),
        ([("34+6", ">", "less_greater")], [">"], {}, "task 0: must be a Task, such as"),
        (islice(tasks("equality"), 2), ["="] * 2, {}, "task: must be a Task or a list of them, got islice"),
        ([GREATER], ["=", "<"], {}, "completion: must be a list of 1, .*, got a list of 2"),
        ([GREATER], ">", {}, "completion: must be a list of 1, one for each task, got str"),
        ([GREATER] * 2, [">", float("nan")], {}, "completion 1: must be text, or None .*, got nan"),
        (GREATER, [">"], {}, r"completion 0: must be text, or None if there is none, got \['>'\]"),
        (GREATER, ">", {"ended": [False]}, r"ended 0: must be True or False, got \[False\]"),
        ([GREATER], [">"], {"ended": [True, False]}, "ended: must be a list of 1, .*, got a list of 2"),
    ],
)
def test_verify_rejects_arguments_that_do_not_match(task, completion, options, message):
    with pytest.raises(InputError, match=message):
        verify(task, completion, **options)


@pytest.mark.parametrize("question", QUESTIONS)
def test_verdicts_equal_the_criterion_of_the_question(question):
    rng = np.random.default_rng(1)
    found = first(200, QUESTIONS[question].template, question=question, seed=7)
    prompts, references = map(list, zip(*(task[:2] for task in found), strict=True))
    # Own completions, those of others, and own ones with a change.
    completions = [
        [text, references[rng.integers(200)], text[:-1], text + rng.choice(list(INSTRUCTIONS))][row % 4]
        for row, text in enumerate(references)
    ]
    programs = Programs.from_strings(map("".join, zip(prompts, references, strict=True)))
    lengths = np.array([len(prompt) for prompt in prompts])
    of = Completed(programs, lengths, Programs.from_strings(completions), np.ones(200, np.bool_), Dataset())
    verdicts = verify(found, completions)
    assert [verdict.solved for verdict in verdicts] == QUESTIONS[question].solves(of).tolist()
    short = of.full.lengths <= Dataset().max_length
    assert [verdict.verified for verdict in verdicts] == (of.verified & short).tolist()
    assert 50 <= sum(verdict.solved for verdict in verdicts) < 200


def test_tasks_and_verdicts_are_computed_in_batches():
    next(tasks("less_greater"))
    found: list[Task] = []
    assert calls(lambda: found.extend(first(10_000, "less_greater", "test"))) < 5 * 10_000
    references = [task.reference for task in found]
    assert calls(lambda: verify(found, references)) < 20 * 10_000


def calls(action: Callable[[], object]) -> int:
    """Return how many functions Python calls in an action; one program of the VM takes hundreds."""
    count = 0

    def profile(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        action()
    finally:
        sys.setprofile(None)
    return count
