"""Interchange interventions, on a model with a known mechanism."""

import numpy as np
import polars as pl
import pytest
import torch

from cadmus.errors import InputError
from cadmus.labs.interchange import figure, patching
from cadmus.labs.interchange.interchange import measure
from cadmus.programs import Programs
from tests.experiments.mechanism import LAYERS, Two
from tests.experiments.subjects import subject_of
from tests.figures.test_figures import titles
from tests.labs.interchange.samples import interchange


def accuracies(model, variables, directions=2):
    settings = {"programs": 60, "variables": variables, "directions": directions}
    results = measure(subject_of(model, -3, 3, {"interchange": settings}))
    assert results.columns[:6] == ["variable", "layer", "method", "directions", "programs", "correct"]
    return results


def test_the_answer_follows_the_variable_where_the_model_reads_it():
    results = accuracies(Two(), ["first", "second", "top", "difference"])
    assert len(results) == 4 * (LAYERS + 1) * 3
    # All pairs count; layer 0 of this model is not what its answer is computed from.
    assert (results["programs"] == 60).all()
    learned = results.filter(pl.col("method") == "learned", pl.col("layer") > 0)
    whole = {
        variable: learned.filter(pl.col("accuracy") > 0.95, variable=variable)["layer"].to_list()
        for variable in ("first", "second", "top", "difference")
    }
    assert whole == {"first": [1], "second": [2, 3], "top": [1, 2, 3], "difference": [2, 3]}
    # An exchange of the whole state takes y along.
    state = results.filter(method="state")
    assert state.filter(pl.col("layer") > 1, variable="second")["correct"].to_list() == [0, 0]
    assert state.filter(pl.col("layer") > 1, variable="difference")["accuracy"].to_list() == [1, 1]


def test_a_random_direction_is_not_the_variable():
    results = accuracies(Two(), ["top"], directions=1).filter(layer=1)
    found = dict(results.select("method", "accuracy").iter_rows())
    assert found["learned"] > 0.95
    assert found["random"] < 0.8


def test_directions_are_learned_by_one_thread(monkeypatch):
    """Several round sums otherwise: a cluster would have other results than one's own machine."""
    learning, exchange, before = [], patching.exchanged_logits, torch.get_num_threads()

    def counted(model, pairs, layer, basis, rows=slice(None)):
        if basis is not None and basis.requires_grad:
            learning.append(torch.get_num_threads())
        return exchange(model, pairs, layer, basis, rows)

    monkeypatch.setattr(patching, "exchanged_logits", counted)
    torch.set_num_threads(2)
    try:
        accuracies(Two(), ["top"], directions=1)
    finally:
        torch.set_num_threads(before)
    assert set(learning) == {1}


def test_subspaces_are_learned_from_other_pairs_than_they_are_tested_on(monkeypatch):
    made: list[tuple[patching.Pairs, set[str]]] = []
    used: dict[str, set[str]] = {"subspaces": set(), "counterfactual_answers": set()}

    def pairs_of(model, table, whole=patching.pairs_of):
        made.append((whole(model, table), {*table["base"], *table["source"]}))
        return made[-1][0]

    def noting(name):
        whole = getattr(patching, name)

        def noted(model, pairs, *rest):
            used[name].update(*(texts for own, texts in made if own is pairs))
            return whole(model, pairs, *rest)

        return noted

    monkeypatch.setattr(patching, "pairs_of", pairs_of)
    for name in used:
        monkeypatch.setattr(patching, name, noting(name))
    accuracies(Two(), ["first"])
    assert all(used.values())
    assert used["subspaces"].isdisjoint(used["counterfactual_answers"])


@pytest.mark.parametrize("wrong", [0, 1])
def test_pairs_of_which_the_model_gets_one_wrong_do_not_count(wrong):
    class Wrong(Two):
        asked = 0

        def next_tokens(self, prompts: Programs) -> np.ndarray:
            # Bases and sources take turns.
            self.asked += 1
            return super().next_tokens(prompts) * (-1 if self.asked % 2 == wrong else 1)

    results = accuracies(Wrong(), ["first"])
    assert results["programs"].to_list() == [0] * len(results)
    assert results["accuracy"].is_null().all()


def test_a_subspace_larger_than_the_state_is_refused():
    with pytest.raises(InputError, match=r"interchange\.directions: must be at most the width .* 6, got 7"):
        accuracies(Two(), ["first"], directions=7)


def test_a_panel_of_the_figure_is_a_variable() -> None:
    drawn = figure.draw(interchange())
    assert [text.get_text() for text in drawn.legends[0].get_texts()] == [
        label for label, _, _ in figure.LABELS.values()
    ]
    assert titles(drawn) == ["first number", "value of a call"]
    assert [text.get_text() for axes in drawn.axes for text in axes.texts] == ["not tested"]
