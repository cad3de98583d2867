"""Experiments on masked diffusion, and those that it cannot be asked."""

import polars as pl
import pytest

from tests.experiments import test_commands
from tests.experiments.test_commands import evaluate, refusal

place = test_commands.place


def test_an_experiment_that_cannot_ask_a_model_says_so(place, tmp_path) -> None:
    used = {"model": place / "full", "config": place / "full.yaml"}
    message = refusal(place, "probe", tmp_path / "a.parquet", **used)
    assert message.endswith(f"{place / 'full'}: model.attention: is full; probe needs causal")


@pytest.mark.parametrize("command", ["completions", "loss", "pass_at_k", "induction", "grid"])
def test_masked_diffusion_is_asked_the_same(place, tmp_path, command) -> None:
    full = {"model": place / "full", "config": place / "full.yaml"}
    evaluate(place, command, tmp_path / "full.parquet", **full)
    evaluate(place, command, tmp_path / "causal.parquet")
    found, other = (pl.read_parquet(tmp_path / f"{name}.parquet") for name in ("full", "causal"))
    assert found.height == other.height
    assert found.columns == other.columns
