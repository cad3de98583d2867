"""Experiments on masked diffusion, and those that it cannot be asked."""

import polars as pl
import pytest

from cadmus import experiments
from tests.experiments import test_commands
from tests.experiments.test_commands import evaluate, refusal
from tests.labs.diffusion.samples import infilling

place = test_commands.place


@pytest.mark.parametrize(
    ("command", "model", "needs"), [("probe", "full", "causal"), ("unmasking", "model", "full")]
)
def test_an_experiment_that_cannot_ask_a_model_says_so(place, tmp_path, command, model, needs) -> None:
    used = {"model": place / model, "config": place / ("full.yaml" if model == "full" else "config.yaml")}
    message = refusal(place, command, tmp_path / "a.parquet", **used)
    found = "full" if needs == "causal" else "causal"
    assert message.endswith(f"{place / model}: model.attention: is {found}; {command} needs {needs}")


@pytest.mark.parametrize("command", ["completions", "loss", "pass_at_k", "induction", "grid", "infilling"])
def test_masked_diffusion_is_asked_the_same(place, tmp_path, command) -> None:
    full = {"model": place / "full", "config": place / "full.yaml"}
    evaluate(place, command, tmp_path / "full.parquet", **full)
    evaluate(place, command, tmp_path / "causal.parquet")
    found, other = (pl.read_parquet(tmp_path / f"{name}.parquet") for name in ("full", "causal"))
    assert found.height == other.height
    assert found.columns == other.columns


def test_metrics_of_nothing_tested_have_no_rows():
    nothing = infilling().with_columns(programs=pl.lit(0), correct=pl.lit(0))
    assert experiments.get("infilling").measured(nothing).is_empty()
