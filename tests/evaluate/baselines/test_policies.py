"""Baselines, and test programs whose like is in the training set."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from cadmus.config import Dataset
from cadmus.evaluate.baselines import policies
from cadmus.evaluate.baselines.linear import Linear
from cadmus.evaluate.baselines.policies import BASELINES, Learned, first_that_holds, grade_baselines
from cadmus.evaluate.grading import TaskBatch, tasks_of
from cadmus.evaluate.questions import QUESTIONS
from cadmus.programs import Programs, Samples
from cadmus.vm.reference import run
from tests.evaluate.samples import is_verified, samples_of


def learned(monkeypatch: pytest.MonkeyPatch, tasks: list[TaskBatch], *shards: Samples) -> Learned:
    """Learn from shards that are given by hand."""
    files = [SimpleNamespace(split="train", template=shard.template[0]) for shard in shards]
    files.insert(1, SimpleNamespace(split="test", template="random"))

    def stream(directory: Path, split: str) -> list[Samples]:
        assert (directory, split) == (Path("dataset"), "train")
        return [*shards]

    monkeypatch.setattr(policies, "read_manifest", lambda _: SimpleNamespace(files=files))
    monkeypatch.setattr(policies, "stream_split", stream)
    return Learned(Path("dataset"), tasks)


def test_the_most_frequent_completion_of_each_question(monkeypatch) -> None:
    test = [
        samples_of("equality", "941-*55*2+=", prompt_length=10),
        samples_of("less_greater", "12<", prompt_length=2),
        samples_of("apply_labels", r"\L1>;u1bf!", prompt_length=9),
    ]
    train = [
        samples_of("equality", "34+7=", "25+7=", "77=", "61-5=", "83-5=", prompt_length=[4, 4, 2, 4, 4]),
        samples_of("less_greater", "21>", "12<", "31>", "34<", prompt_length=2),
        samples_of("equality", "55=", "15*5=", prompt_length=[2, 4]),
    ]
    tasks = tasks_of(Samples.concat(test))
    monkeypatch.setattr(policies, "_EXAMPLES", 6)
    found = learned(monkeypatch, tasks, *train)
    assert len(found.prompts["equality_comparator"]) == 6
    assert found.prompts["less_greater"].to_strings() == ["21", "12", "31", "34"]
    assert found.completions["less_greater"].to_strings() == [">", "<", ">", "<"]
    assert found.frequent == {
        "equality": ["5=", "7="],
        "equality_comparator": ["="],
        # Of equals the first in the alphabet; without training programs nothing.
        "less_greater": ["<", ">"],
        "apply_labels": [],
    }


def test_what_the_training_set_asks_about_too(monkeypatch) -> None:
    test = [
        samples_of("less_greater", "34+9<", "12<", "56<", "9t1+<", prompt_length=[4, 2, 2, 4]),
        samples_of("basic_sequences", "u1b2b3b0@1=", "u7bL1=", prompt_length=[9, 4]),
        samples_of("subroutines", r"\41-*;9f27=", r"8f2=\4/;", prompt_length=[10, 4]),
        samples_of("complete_algorithm", r"2f4=3f6=\2*;", r"2f3=3f4=\1+;", prompt_length=[8, 8]),
    ]
    train = [
        # The same pair in the other order; the first of another pair; another pair with the same text.
        samples_of("less_greater", "934+>", "13<", "9t1-<", prompt_length=[4, 2, 4]),
        samples_of("basic_sequences", "u1b2b3bL3=", "u7b1bL2=", prompt_length=[8, 6]),
        # The same function in the other form.
        samples_of("subroutines", r"\4/;9f3=", r"5f15=\41-*;", prompt_length=[7, 5]),
        # The same pair as in less_greater is not the same question.
        samples_of("basic_math", "12<", prompt_length=2),
        samples_of("complete_algorithm", r"5f6=9ft=\1+;", prompt_length=8),
    ]
    found = learned(monkeypatch, tasks_of(Samples.concat(test)), *train).seen
    assert found == {
        "less_greater": {"34+ 9"},
        "subroutines": {r"\41-*;"},
        "subroutines_definition": {r"\4/;"},
        "basic_sequences": {"u1b2b3b"},
        "complete_algorithm": {r"\1+;"},
    }


def test_baselines_complete_as_they_say(monkeypatch) -> None:
    test = [
        samples_of("less_greater", "12<", "34<", "21>", "34+9<", prompt_length=[2, 2, 2, 4]),
        samples_of("apply_labels", r"\L1>;u1bf!", r"\L1>;u1b2bf", r"\L1>;u1b3bf", prompt_length=[9, 11, 11]),
        samples_of("complete_algorithm", r"2f4=3f6=\2*;", prompt_length=8),
    ]
    train = [samples_of("less_greater", "43>", "53>", "23<", prompt_length=2)]
    tasks = tasks_of(Samples.concat(test))
    graded = grade_baselines(tasks, learned(monkeypatch, tasks, *train), Dataset())
    by_question = graded.group_by("question", "policy", maintain_order=True).agg("completion", "solved")
    rows = {(question, policy): rest for question, policy, *rest in by_question.rows()}
    assert rows["less_greater", "ends_at_once"] == [[""] * 4, [False] * 4]
    assert rows["less_greater", "constant"] == [["<"] * 4, [True, True, False, True]]
    assert rows["less_greater", "most_frequent"] == [[">"] * 4, [False, False, True, False]]
    assert rows["apply_labels", "ends_at_once"] == [[""] * 3, [False, True, True]]
    # The list of attacks has the empty completion.
    assert rows["apply_labels", "constant"] == rows["apply_labels", "ends_at_once"]
    # No instruction solves it; then the first is taken.
    assert rows["complete_algorithm", "constant"] == [["0"], [False]]
    # Of the questions without training programs, nothing is learned.
    others = {policy for question, policy in rows if question != "less_greater"}
    assert others == {"ends_at_once", "constant", "copy"}
    absent = {*BASELINES} - {policy for question, policy in rows if question == "less_greater"}
    assert absent == {"retrieval", "copy", "rewrite"}


def test_retrieval_takes_the_most_frequent_completion_that_makes_the_program_true(monkeypatch) -> None:
    # The rarest solves the second; after the third only what drops is true; the fourth is too long.
    test = samples_of(
        "complete_algorithm", r"2f4=\2*;", r"2f5=\3+;", r"2f9=\7+;", r"22f4=\2*;", prompt_length=[4, 4, 4, 5]
    )
    train = samples_of(
        "complete_algorithm",
        *[r"3f5=\2+;"] * 3,
        *[r"1f2=\2*;"] * 2,
        r"1f4=\3+;",
        r"2f9=\_9;",
        prompt_length=4,
    )
    tasks = tasks_of(test)
    graded = grade_baselines(tasks, learned(monkeypatch, tasks, train), Dataset(max_length=8))
    retrieval = graded.filter(policy="retrieval")
    assert retrieval["completion"].to_list() == [r"\2+;", r"\3+;", r"\2+;", r"\2+"]
    assert retrieval["ended"].to_list() == [True, True, True, False]


def test_the_first_candidate_that_holds_is_that_of_a_search_one_by_one(monkeypatch) -> None:
    monkeypatch.setattr("cadmus.evaluate.baselines.policies._AT_ONCE", 10)
    rng = np.random.default_rng(0)
    prompts, candidates = (
        Programs.from_strings("".join(rng.choice([*"123+-=<!_"], rng.integers(1, 5))) for _ in range(40))
        for _ in range(2)
    )
    task = TaskBatch("random", QUESTIONS["random"], prompts, prompts.lengths)
    found = first_that_holds(task, candidates, Dataset(max_length=7))
    assert (found < 0).any()
    assert (found > 0).any()

    def right(prompt: str, completion: str) -> bool:
        return (
            len(prompt + completion) <= 7
            and is_verified(prompt, completion)
            and None not in run(prompt).outputs
        )

    for prompt, row in zip(prompts.to_strings(), found, strict=True):
        rights = [right(prompt, candidate) for candidate in candidates.to_strings()]
        assert row == (rights.index(True) if any(rights) else -1)


def test_the_linear_baseline_reads_tokens_by_place() -> None:
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice([*"0123456789+*"], rng.integers(2, 7))) for _ in range(3_000)]
    prompts = Programs.from_strings(texts)
    # The last token but one decides; the first class is an operator's.
    completions = Programs.from_strings("<" if text[-2] in "+*" else ">=" for text in texts)
    for operators_only in (False, True):
        fitted = Linear(prompts, completions, operators_only)
        assert fitted.complete(prompts).to_strings() == completions.to_strings()
    # Literals are all alike to the operators, and a prompt may be longer than those of training.
    assert fitted.complete(Programs.from_strings(["1" * 20 + "+1", "77"])).to_strings() == ["<", ">="]
    digits = prompts.take(np.flatnonzero([text[-1].isdigit() for text in texts]))
    parity = ["=" if text[-1] in "02468" else "<" for text in digits.to_strings()]
    # A pair of neighbors decides, which no place does alone.
    matched = ["=" if (text[0] in "02468") == (text[1] in "+*02468") else "<" for text in texts]
    for pairs, least, most in ((True, 0.95, 1), (False, 0.4, 0.75)):
        ours = Linear(prompts, Programs.from_strings(matched), pairs=pairs).complete(prompts).to_strings()
        assert least <= np.mean(np.array(ours) == matched) <= most
    # Without an intercept, tokens that say nothing would hide which class is frequent.
    rare = ["<" if number % 10 == 0 else "=" for number in range(len(texts))]
    constant = Linear(prompts, Programs.from_strings(rare))
    assert constant.complete(Programs.from_strings(["ZZ"])).to_strings() == ["="]
    assert constant._intercepts_C.detach().softmax(0).max() > 0.6
    for operators_only, least, most in ((False, 1, 1), (True, 0.4, 0.7)):
        ours = Linear(digits, Programs.from_strings(parity), operators_only).complete(digits).to_strings()
        assert least <= np.mean(np.array(ours) == parity) <= most


def test_answers_are_cut_off_at_the_maximum_length(monkeypatch) -> None:
    test = samples_of("less_greater", "12+12+<", "12<", prompt_length=[6, 2])
    train = samples_of("less_greater", "12<", prompt_length=2)
    tasks = tasks_of(test)
    graded = grade_baselines(tasks, learned(monkeypatch, tasks, train), Dataset(max_length=6))
    for policy in ("constant", "most_frequent", "linear", "pairs", "operators"):
        assert graded.filter(policy=policy)["ended"].to_list() == [False, True]
