"""pass@k: the estimator against all draws, counts of samples, the baseline and the accuracies."""

from itertools import combinations

import numpy as np
import polars as pl
import pytest

from cadmus.config import Dataset
from cadmus.config.evaluation import budgets
from cadmus.evaluate.baselines import policies
from cadmus.evaluate.baselines.policies import training_completions
from cadmus.evaluate.grading import grade_samples, tasks_of
from cadmus.evaluate.statistics.results import MODEL, accuracy_at_k, pass_at_k
from cadmus.programs import Programs
from tests.evaluate.samples import samples_of


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_the_estimate_is_the_fraction_of_draws_with_a_right_sample(n):
    right = np.arange(n + 1)
    found = pass_at_k(np.full(n + 1, n), right, n)
    for c in right:
        for k in range(1, n + 1):
            draws = [any(sample < c for sample in drawn) for drawn in combinations(range(n), k)]
            assert found[c, k - 1] == pytest.approx(np.mean(draws)), (n, c, k)


def test_the_estimate_is_stable_for_many_samples():
    (found,) = pass_at_k(np.array([10_000]), np.array([1]), 10_000)
    np.testing.assert_allclose(found, np.arange(1, 10_001) / 10_000, rtol=1e-9)


def test_programs_may_have_different_numbers_of_samples():
    found = pass_at_k(np.array([4, 8]), np.array([1, 2]), 2)
    np.testing.assert_allclose(found, [[1 / 4, 1 / 2], [1 / 4, 1 - 15 / 28]])


@pytest.mark.parametrize(
    ("samples", "right", "message"),
    [(3, 1, "needs at least 4 samples, got 3"), (4, 5, "between 0"), (4, -1, "between 0")],
)
def test_impossible_counts_are_rejected(samples, right, message):
    with pytest.raises(ValueError, match=message):
        pass_at_k(np.array([samples]), np.array([right]), 4)


@pytest.mark.parametrize(
    ("samples", "expected"), [(1, [1]), (2, [1, 2]), (3, [1, 2, 3]), (9, [1, 2, 4, 8, 9])]
)
def test_budgets_end_with_all_samples(samples, expected):
    assert budgets(samples) == expected


def test_samples_are_counted_per_program():
    tasks = tasks_of(samples_of("less_greater", "34+8<", "34+6>", prompt_length=4))
    answers = ["<", ">", "", "=", "<", "=", "1_>", ">"]

    def policy(question, prompts):
        assert prompts.to_strings() == ["34+8"] * 4 + ["34+6"] * 4
        # The only right comparator of the second program does not end it.
        return Programs.from_strings(answers), np.array([True] * 7 + [False])

    found = grade_samples(tasks, policy, MODEL, Dataset(), 4)
    assert found.select("program", "samples", "solved", "verified", "fits").rows() == [
        # Nothing leaves 7 and 8, a true program that does not answer.
        ("34+8<", 4, 1, 2, None),
        ("34+6>", 4, 0, 0, None),
    ]


def test_functions_of_samples_are_counted():
    tasks = tasks_of(samples_of("complete_algorithm", "1f2=3f4=\\1+;", prompt_length=8))
    answers = Programs.from_strings(["\\1+;", "\\1+;", "\\2+1-;", "\\2;"]), np.ones(4, np.bool_)
    found = grade_samples(tasks, lambda *_: answers, MODEL, Dataset(), 4)
    assert found.select("solved", "fits").rows() == [(3, 3)]


def test_the_baseline_draws_completions_of_training_programs_of_the_question(monkeypatch, tmp_path):
    shard = samples_of("equality", "11+2=", "34+52+=", prompt_length=3)
    monkeypatch.setattr(policies, "stream_split", lambda *place: {"train": iter([shard])}[place[1]])
    tasks = tasks_of(samples_of("equality", "12+3=", prompt_length=3))
    policy = training_completions(tmp_path, tasks, seed=0)
    prompts = Programs.from_strings(["12+"] * 50)
    drawn, ended = policy("equality", prompts)
    assert set(drawn.to_strings()) == {"2=", "52+="}
    assert ended.all()
    assert set(policy("equality_comparator", prompts)[0].to_strings()) == {"="}
    again, _ = training_completions(tmp_path, tasks, seed=0)("equality", prompts)
    assert again.to_strings() == drawn.to_strings()


def test_a_question_that_no_training_program_is_asked_is_completed_with_nothing(monkeypatch, tmp_path):
    shard = samples_of("random", "1", prompt_length=1)
    monkeypatch.setattr(policies, "stream_split", lambda *place: {"train": iter([shard])}[place[1]])
    tasks = tasks_of(samples_of("random", "00=1", "000=", prompt_length=1))
    assert [task.name for task in tasks] == ["random"]
    drawn, _ = training_completions(tmp_path, tasks, seed=0)("random", Programs.from_strings(["0"] * 3))
    assert drawn.to_strings() == [""] * 3


def results(solved: list[int], asked: list[str]) -> pl.DataFrame:
    """Return results of one question with four samples per program."""
    rows = {"question": "equality", "policy": MODEL, "subject": asked, "samples": 4, "solved": solved}
    return pl.DataFrame(rows).with_columns(
        verified=pl.lit(4),
        fits=pl.lit(None, pl.Int64),
        greedy_solved=pl.col("solved") > 2,
        ceiling=pl.lit(1.0),
    )


def test_accuracies_are_means_over_programs():
    found = accuracy_at_k(results([0, 1, 2, 4], list("abcd")))
    metrics = found["metric"].unique(maintain_order=True).to_list()
    assert metrics == ["solved", "verified", "greedy_solved"]
    solved = found.filter(metric="solved")
    assert solved["k"].to_list() == [1, 2, 4]
    assert solved["accuracy"].to_list() == pytest.approx(
        [(0 + 1 / 4 + 2 / 4 + 1) / 4, (0 + 1 / 2 + 5 / 6 + 1) / 4, 3 / 4]
    )
    assert found.filter(metric="verified")["accuracy"].to_list() == [1, 1, 1]
    assert found.filter(metric="greedy_solved")["accuracy"].to_list() == [1 / 4] * 3
    assert (found["low"] <= found["accuracy"]).all()
    assert (found["accuracy"] <= found["high"]).all()
