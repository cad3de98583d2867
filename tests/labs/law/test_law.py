"""The scaling law of a study, fitted to losses that follow a known law."""

import itertools
import json

import numpy as np
import polars as pl
import pytest

from cadmus.config.study import load_study
from cadmus.errors import InputError
from cadmus.labs.law import law
from cadmus.study.page import write_all
from cadmus.study.results import TABLE, collect, read
from tests.checkout import ROOT
from tests.study.exports import write_training

TRUE = law.Law(np.array([0.5, 60.0, 0.4, 300.0, 0.5]), np.array([0.0, 100.0]))
FLOPS = (1e12, 1e13, 1e14)


def study_runs(deviation=0.001):
    """Return runs of four sizes on three lines of equal FLOPs, with three seeds."""
    random = np.random.default_rng(1)
    rows = []
    for flops, parameters in itertools.product(FLOPS, (2e4, 1e5, 5e5, 2.5e6)):
        programs = TRUE.programs(parameters, flops)
        loss = TRUE.loss(np.array([parameters]), np.array([programs])).item()
        for seed in range(3):
            noisy = loss * np.exp(deviation * random.standard_normal())
            rows.append((f"{parameters:.2g} at {flops:.2g}", seed, parameters, programs, flops, noisy))
    columns = ["variant", "seed", "parameters", "programs", "cost", "loss"]
    return pl.DataFrame(rows, columns, orient="row")


def test_the_law_is_recovered(monkeypatch):
    monkeypatch.setattr(law, "RESAMPLES", 40)
    runs = study_runs()
    fitted = law.fit(runs)
    assert fitted.cost == pytest.approx(TRUE.cost, abs=1e-6)
    assert fitted.coefficients == pytest.approx(TRUE.coefficients, rel=0.25)
    found = law.table(fitted, law.resampled(runs, fitted), [1e15])
    rows = {row["name"]: row for row in found.iter_rows(named=True)}
    of_budget = ["parameters at 1e+15", "programs at 1e+15", "loss at 1e+15"]
    assert list(rows) == [*law.NAMES, "exponent", "fixed cost", "cost of a parameter", *of_budget]
    for name, value in {
        "exponent": 0.5 / 0.9,
        "E": 0.5,
        "parameters at 1e+15": TRUE.optimal_parameters(np.array([1e15])).item(),
    }.items():
        row = rows[name]
        assert row["low"] <= row["value"] <= row["high"]
        assert row["value"] == pytest.approx(value, rel=0.1)


def test_a_resample_has_all_seeds_of_a_variant(monkeypatch):
    drawn = []
    monkeypatch.setattr(law, "fit", lambda runs, near: drawn.append(runs))
    law.resampled(study_runs(), TRUE)
    for runs in drawn:
        counts = runs.group_by("variant", "seed").agg(pl.len()).group_by("variant").agg(count="len")
        assert {(len(of), len(set(of))) for of in counts["count"]} == {(3, 1)}
    assert len(drawn) == law.RESAMPLES


def test_the_optimum_is_that_of_the_closed_form():
    _, of_size, alpha, of_programs, beta = TRUE.coefficients
    scale = (alpha * of_size / (beta * of_programs)) ** (1 / (alpha + beta))
    best = scale * (1e14 / TRUE.cost[1]) ** (beta / (alpha + beta))
    assert TRUE.optimal_parameters(np.array([1e14])).item() == pytest.approx(best, rel=0.01)


def test_a_fixed_cost_makes_the_optimum_larger():
    slow = TRUE._replace(cost=np.array([2e7, 100.0]))
    budgets = np.array([1e13, 1e14])
    assert (slow.optimal_parameters(budgets) > 1.1 * TRUE.optimal_parameters(budgets)).all()
    parameters, programs = np.array([2e4, 5e5, 2.5e6]), np.array([1e5, 1e6, 1e7])
    columns = {"variant": ["a", "b", "c"], "seed": [0] * 3, "parameters": parameters, "programs": programs}
    costs = programs * (slow.cost[0] + slow.cost[1] * parameters)
    fitted = law.fit(pl.DataFrame({**columns, "cost": costs, "loss": slow.loss(parameters, programs)}))
    assert fitted.cost == pytest.approx(slow.cost)


def test_a_line_of_equal_cost_has_its_accuracies():
    runs = study_runs()
    lines, costs, *_ = zip(*law._lines(runs), strict=True)
    assert [len(line) for line in lines] == [4, 4, 4]
    assert costs == pytest.approx(FLOPS)
    compared = runs.filter(seed=0).select(
        "variant", mean="loss", low="loss", high="loss", baseline=pl.lit(0.5)
    )
    compared = compared.with_columns(metric=pl.lit("solved"), template=pl.lit("equality"))
    (axes,) = law.draw_accuracies(runs, compared).axes[:1]
    assert [len(line.get_xdata()) for line in axes.lines] == [4, 4, 4, 12]


SIZES = [(1, 16), (1, 32), (2, 16), (2, 32), (3, 16), (3, 32)]
VALUES = {
    "extends": f"{ROOT}/tests/tiny.yaml",
    "name": "sizes",
    "study": {
        "variants": {
            f"{layers} x {width}": {"model": {"layers": layers, "width": width, "heads": 2, "mlp": 2 * width}}
            for layers, width in SIZES
        },
        "seeds": [0],
        "law_flops": [1e12],
    },
}


def test_the_law_is_a_part_of_the_study(tmp_path, monkeypatch):
    monkeypatch.setattr(law, "RESAMPLES", 3)
    path = tmp_path / "sizes.yaml"
    losses = {**VALUES["study"], "experiments": [], "compare": ["loss"]}
    path.write_text(json.dumps({**VALUES, "study": losses}))
    study = load_study(path)
    for run in study.runs:
        width = run.config.model.width
        step = {"step": 1, "loss": 1 + 1 / width, "completion_loss": 1.0, "programs": 80}
        write_training(tmp_path, run, [{**step, "flops": 1e9 * width, "seconds": 1.0}], 1e12)
    collect(study, tmp_path, tmp_path / "study.parquet")
    assert {"parameters", "programs"} <= set(TABLE.columns)
    written = write_all(tmp_path / "study.parquet", tmp_path / "sizes")
    assert {tmp_path / "sizes" / name for name in ("law.csv", "law.png")} <= set(written)
    assert all(path.stat().st_size > 20 for path in written)
    # With a run missing, the others are compared without a law.
    (tmp_path / study.runs[0].training / "training/metrics.jsonl").unlink()
    collect(study, tmp_path, tmp_path / "study.parquet")
    assert read(tmp_path / "study.parquet").missing
    assert tmp_path / "sizes/law.csv" not in write_all(tmp_path / "study.parquet", tmp_path / "sizes")


def test_a_law_needs_a_loss(tmp_path):
    path = tmp_path / "sizes.yaml"
    path.write_text(json.dumps({**VALUES, "study": {**VALUES["study"], "compare": ["solved"]}}))
    with pytest.raises(InputError, match=r"study: law_flops: a law needs 6 variants"):
        load_study(path)
