"""Questions that programs are asked, and grades of completions."""

import re

import numpy as np
import polars as pl
import pytest

from cadmus.config import TEMPLATES, Dataset
from cadmus.errors import InputError
from cadmus.evaluate.grading import Policy, TaskBatch, grade, tasks_of
from cadmus.evaluate.questions import questions_of
from cadmus.evaluate.statistics.results import METRICS, MODEL, accuracy_by
from cadmus.experiments.completions import ASKED, ask
from cadmus.programs import Programs, Samples
from tests.evaluate.samples import samples_of
from tests.experiments.subjects import subject_of

DATASET = Dataset()


def answers(completions: dict[tuple[str, str] | str, str | None]) -> Policy:
    """Return a policy with a completion per prompt, or per question and prompt; None never ends."""

    def complete(question: str, prompts: Programs) -> tuple[Programs, np.ndarray]:
        texts = [
            completions[prompt if prompt in completions else (question, prompt)]
            for prompt in prompts.to_strings()
        ]
        return Programs.from_strings(text or "" for text in texts), np.array([t is not None for t in texts])

    return complete


def graded(samples: Samples, completions: dict[tuple[str, str] | str, str | None]) -> pl.DataFrame:
    return grade(tasks_of(samples), answers(completions), MODEL, DATASET)


def counts(completions: pl.DataFrame, question: str) -> dict[str, int]:
    rows = accuracy_by(completions, "question").filter(question=question)
    return dict(rows.select("metric", "correct").iter_rows())


def test_metrics_differ_by_completion() -> None:
    programs = {
        "34+7=": ("34+7", "="),  # the original
        "34+6>": ("34+6", "=!"),  # another true program
        "34+5>": ("34+5", ">!!"),  # true, and starts like the original
        "34+4>": ("34+4", "<"),  # false
        "34+3>": ("34+3", "__1"),  # true by dropping
        "34+2>": ("34+2", None),  # true so far, but never ends
        "34+1>": ("34+1", ""),  # ends at once: 7 and 1 are both true
    }
    completions = graded(samples_of("basic_math", *programs, prompt_length=4), dict(programs.values()))
    assert completions.columns == [*ASKED, "completion", "ended", *METRICS]
    assert completions["program"].to_list() == list(programs)
    assert completions["subject"].to_list() == [" ".join(sorted(["34+", text[3]])) for text in programs]
    assert completions["prompt_length"].to_list() == [4] * 7
    assert completions["completion"].to_list() == [answer or "" for _, answer in programs.values()]
    assert completions["ended"].to_list() == [answer is not None for _, answer in programs.values()]
    for column, name in (("policy", MODEL), ("template", "basic_math"), ("question", "basic_math")):
        assert completions[column].to_list() == [name] * 7
    right = {metric: [i for i, value in enumerate(completions[metric]) if value] for metric in METRICS}
    expected = {"solved": [0], "fits": [], "exact": [0], "next_token": [0, 2], "verified": [0, 1, 2, 6]}
    assert right == expected
    assert completions["fits"].null_count() == 7


def test_the_next_token_may_be_the_end() -> None:
    programs = ("\\L1>;u1b2bf", "\\L1>;u1bf!")
    samples = samples_of("apply_labels", *programs, prompt_length=[11, 9])
    metrics = ["solved", "exact", "next_token", "verified"]
    right = graded(samples, {programs[0]: "", "\\L1>;u1bf": "!"})
    assert counts(right, "apply_labels") == dict.fromkeys(metrics, 2)
    swapped = graded(samples, {programs[0]: "!", "\\L1>;u1bf": ""})
    assert counts(swapped, "apply_labels") == dict.fromkeys(metrics, 0)
    # A completion that neither starts nor ends has no next token.
    never = graded(samples, {programs[0]: None, "\\L1>;u1bf": None})
    assert counts(never, "apply_labels") == dict.fromkeys(metrics, 0)


def test_a_limit_takes_the_first_programs_of_each_template() -> None:
    less = samples_of("less_greater", "34+8<", "34+6>", prompt_length=4)
    samples = Samples.concat([less, samples_of("basic_math", "34+7=", "34+9<", prompt_length=4)])
    tasks = tasks_of(samples, 1)
    assert [(task.name, task.programs.to_strings()) for task in tasks] == [
        ("basic_math", ["34+7="]),
        ("less_greater", ["34+8<"]),
    ]
    assert [len(task.programs) for task in tasks_of(samples)] == [2, 2]


def test_equality_is_asked_twice() -> None:
    program = "941-*55*2+="
    samples = samples_of("equality", program, prompt_length=10)
    assert [(task.name, *task.prompts.to_strings()) for task in tasks_of(samples)] == [
        ("equality", program[:5]),
        ("equality_comparator", program[:10]),
    ]
    results = graded(samples, {program[:10]: "=", program[:5]: "39*="})
    assert counts(results, "equality") == {"solved": 1, "exact": 0, "next_token": 0, "verified": 1}
    everything = dict.fromkeys(("solved", "exact", "next_token", "verified"), 1)
    assert counts(results, "equality_comparator") == everything


def test_subroutines_are_asked_one_question_by_their_form() -> None:
    before_comparator, before_definition = r"\41-*;9f55*2+=", r"8f2=\4/;"
    samples = samples_of("subroutines", before_definition, before_comparator, prompt_length=[4, 13])
    assert [(task.name, *task.prompts.to_strings()) for task in tasks_of(samples)] == [
        ("subroutines", before_comparator[:13]),
        ("subroutines_definition", "8f2="),
    ]


def test_random_programs_without_a_fair_prompt_are_not_asked() -> None:
    # True after every instruction; dropping; not true after "10"; a prompt that leaves nothing, one of two.
    programs = ["123", "10_", "103+3=", "uu", r"\0;1"]
    samples = samples_of("random", *programs, prompt_length=1)
    (task,) = tasks_of(samples)
    assert dict(zip(task.programs.to_strings(), task.prompts.to_strings(), strict=True)) == {
        "103+3=": "103",
        r"\0;1": r"\0",
    }
    # At most as many prompts leave nothing as leave something.
    assert tasks_of(samples.take(np.array([0, 1, 3, 4]))) == []


@pytest.mark.parametrize("template", TEMPLATES)
def test_no_programs_are_asked_no_question(template: str) -> None:
    assert tasks_of(samples_of(template, prompt_length=[])) == []


def test_an_added_template_must_ask_for_a_written_answer(monkeypatch) -> None:
    """A space ends the prompt."""
    (question,) = questions_of("modular_sum").values()
    subject = subject_of(None, -9, 9, {})
    subject.dataset, subject.test_programs = "dataset", lambda: None
    for programs, refused in ((("78+5% 0=", "34+ 7="), None), (("78+5% 0=", "34+9 <"), "34+9<")):
        lengths = np.array([program.index(" ") for program in programs])
        joined = Programs.from_strings(program.replace(" ", "") for program in programs)
        tasks = [TaskBatch("modular_sum", question, joined, lengths)]
        monkeypatch.setattr("cadmus.evaluate.grading.tasks_of", lambda *_, tasks=tasks: tasks)
        if refused is None:
            assert ask(subject, 9) == tasks
        else:
            with pytest.raises(
                InputError, match=rf"does not solve '{re.escape(refused)}'; give the template a question"
            ):
                ask(subject, 9)
