"""Result files, and accuracies by question and number of examples."""

import numpy as np
import polars as pl
import pytest

from cadmus.columns import COUNT, NUMBER, Table
from cadmus.errors import InputError
from cadmus.evaluate.questions import in_order
from cadmus.evaluate.statistics.results import (
    CEILING,
    METRICS,
    accuracy_by,
    best_baseline,
    compared,
    gaps_by,
)
from cadmus.store import read_results
from tests.evaluate.samples import completions_of

LOSS = Table({"step": COUNT, "loss": NUMBER.or_null()})


def test_a_result_file_of_another_kind_is_an_error(tmp_path) -> None:
    (tmp_path / "results.csv").write_text("step,loss\n1,2\n")
    with pytest.raises(InputError, match="not a file of results or metrics; its suffix must be"):
        read_results(tmp_path / "results.csv", LOSS)


def test_accuracies_are_in_the_order_of_the_completions() -> None:
    graded = pl.concat(
        [
            completions_of("random", "model", [True, False, False, False]),
            completions_of("complete_algorithm", "model", [True, True, True, False]),
            completions_of("random", "constant", [False] * 4),
            completions_of("complete_algorithm", "constant", [True] * 4),
        ]
    ).drop(CEILING)
    results = accuracy_by(graded, "question")
    # No row for a metric that is not defined.
    defined = {"random": [metric for metric in METRICS if metric != "fits"], "complete_algorithm": [*METRICS]}
    assert results.select("question", "policy", "metric").rows() == [
        (question, policy, metric)
        for question in ("random", "complete_algorithm")
        for policy in ("model", "constant")
        for metric in defined[question]
    ]
    solved = results.filter(metric="solved")
    assert solved["correct"].to_list() == [1, 0, 3, 4]
    assert solved["accuracy"].to_list() == [0.25, 0, 0.75, 1]
    assert solved["accuracy"].is_between(solved["low"], solved["high"]).all()
    assert (solved["high"] > solved["low"]).all()
    total = accuracy_by(graded)
    assert total.columns == ["policy", "metric", "programs", "correct", "accuracy", "low", "high"]
    assert total.filter(metric="solved").select("programs", "correct").rows() == [(8, 4), (8, 4)]
    assert accuracy_by(graded.clear(), "question").schema == results.schema


def test_programs_that_ask_about_the_same_are_one_cluster() -> None:
    same = np.arange(2_000) // 4
    right = same % 2 == 0
    alone, clustered = (
        accuracy_by(completions_of("random", "model", right, **columns)).row(0, named=True)
        for columns in ({}, {"subject": same.astype(str)})
    )
    assert alone["accuracy"] == clustered["accuracy"] == 0.5
    width = [row["high"] - row["low"] for row in (alone, clustered)]
    assert width[1] / width[0] == pytest.approx(2, rel=0.1)


def test_the_best_baseline_is_that_of_all_rows_together() -> None:
    rows = [("linear", 10, 10), ("linear", 90, 0), ("copy", 10, 5), ("copy", 90, 60)]
    found = pl.DataFrame(rows, ["policy", "programs", "correct"], orient="row")
    found = found.with_columns(metric=pl.lit("solved"), accuracy=pl.col("correct") / pl.col("programs"))
    assert best_baseline(found)["policy"].to_list() == ["copy"] * 2


def test_the_gap_is_to_the_best_baseline_and_paired() -> None:
    rng = np.random.default_rng(0)
    model = rng.random(1_000) < 0.6
    close = model & (rng.random(1_000) < 0.9)
    graded = pl.concat(
        [
            completions_of("random", "linear", rng.random(1_000) < 0.2),
            completions_of("random", "model", model),
            completions_of("random", "most_frequent", close),
            completions_of("random", "constant", close),
        ]
    )
    ((question, baseline, gap, low, high),) = gaps_by(graded, "question").rows()
    assert (question, baseline) == ("random", "most_frequent")
    assert gap == pytest.approx(model.mean() - close.mean())
    assert 0 < low < gap < high
    # Of two independent policies of these accuracies, the gap has three times the error.
    by_policy = accuracy_by(graded).filter(metric="solved")
    widths = dict(by_policy.select("policy", pl.col("high") - pl.col("low")).rows())
    assert high - low < np.hypot(widths["model"], widths["most_frequent"]) / 2
    negative = graded.with_columns(~pl.col("solved"))
    assert gaps_by(negative, "question")["gap"].item() < 0


def test_a_gap_needs_a_model_a_baseline_and_a_metric_that_is_defined() -> None:
    graded = pl.concat(
        [
            completions_of("complete_algorithm", "model", [True, True]),
            completions_of("random", "model", [True, False]),
            completions_of("equality", "constant", [True]),
            completions_of("random", "constant", [True, False]),
            completions_of("complete_algorithm", "constant", [False, True]),
        ]
    )
    assert gaps_by(graded, "question")["question"].to_list() == ["complete_algorithm", "random"]
    fits = gaps_by(graded, "question", metric="fits")
    assert fits.select("question", "gap").rows() == [("complete_algorithm", 0.5)]


def test_gaps_of_other_programs_are_refused() -> None:
    model = pl.DataFrame({"policy": "model", "question": "random", "subject": ["1", "2"]})
    other = pl.DataFrame({"policy": "linear", "question": "random", "subject": ["2", "1"]})
    graded = pl.concat([model, other]).with_columns(pl.lit(True).alias(metric) for metric in METRICS)
    with pytest.raises(ValueError, match="policy linear: completed other programs than the model"):
        gaps_by(graded, "question")


def test_lines_without_a_seal_have_the_declared_columns(tmp_path):
    path = tmp_path / "metrics.jsonl"
    nested = '"reinforcement": {"equality": {"solved": 0.5}}'
    path.write_text(f'{{"step": 1, "loss": 2, {nested}}}\n{{"step": 2, "loss": null, {nested}}}\n')
    found, origin = read_results(path, LOSS)
    assert found.columns == ["step", "loss"]
    assert found.rows() == [(1, 2.0), (2, None)]
    assert origin.cadmus is None


def test_questions_are_in_the_order_of_table_3_then_policies():
    given = pl.concat(
        completions_of(question, policy, [True])
        for policy in ("model", "constant")
        for question in ("modular_sum", "equality_comparator", "equality")
    )
    results = in_order(accuracy_by(given, "question").filter(metric="solved"))
    assert results.select("question", "policy").rows() == [
        (question, policy)
        for question in ("equality", "equality_comparator", "modular_sum")
        for policy in ("model", "constant")
    ]


def test_models_are_compared_on_the_same_programs() -> None:
    right = [index % 4 > 0 for index in range(200)]
    better = [index % 8 > 0 for index in range(200)]
    first, second = (
        pl.concat([completions_of("equality", "model", each), completions_of("random", "model", right)])
        for each in (right, better)
    )
    equality, random = compared(first, second).to_dicts()
    assert (equality["question"], equality["programs"]) == ("equality", 200)
    assert (equality["first"], equality["second"]) == (0.75, 0.875)
    assert equality["difference"] == pytest.approx(0.125)
    assert 0.07 < equality["low"] < 0.125 < equality["high"] < 0.18
    assert random["difference"] == 0
    assert random["low"] <= 0 <= random["high"]
    with pytest.raises(InputError, match="are of different programs"):
        compared(first, second.head(300))
