"""Circuits: a model as a graph of its parts, and the scores of its edges."""

import numpy as np
import polars as pl
import pytest
import torch

from cadmus.errors import InputError
from cadmus.evaluate.prompts.counterfactuals import counterfactuals
from cadmus.labs.circuits import circuit
from cadmus.labs.circuits.graph import Graph, Pairs, edges_of, minimal_pairs_of
from cadmus.labs.circuits.score import read_edge_scores, score_edges
from cadmus.model.inference import Cadmus
from cadmus.programs import Programs
from tests.experiments.subjects import subject_of
from tests.model.models import FLOAT_NOISE, SIZES, random_model


def graph_of() -> Graph:
    """Return the graph of a random model; what it answers counts as right."""
    model = Cadmus(random_model(SIZES.model_copy(update={"layers": 2})))
    table = counterfactuals("first", 12, minimal=True)
    sides = [Programs.from_strings(table[side]) for side in ("base", "source")]
    answers = [torch.from_numpy(model.next_logits(side).argmax(1)) for side in sides]
    tokens = [torch.from_numpy(side.to_tokens()) for side in sides]
    return Graph(model, Pairs(*tokens, torch.from_numpy(sides[0].lengths - 1), *answers))


def test_a_graph_computes_what_the_model_does():
    graph = graph_of()
    edges = graph.edges
    blocks, heads = 2, SIZES.heads
    assert len(edges.senders) == 1 + blocks * (heads + 1)
    assert len(edges.receivers) == blocks * (3 * heads + 1) + 1
    # Each reads all that came before, and an MLP the heads of its own block.
    before = [1 + block * (heads + 1) for block in range(blocks)]
    assert len(edges.pairs) == sum(3 * heads * n + n + heads for n in before) + len(edges.senders)
    table = counterfactuals("first", 12, minimal=True)
    for side, logits in (("base", graph.base_RV), ("source", graph.source_RV)):
        wanted = Cadmus(graph.model).next_logits(table[side].to_list())
        assert np.abs(logits.numpy() - wanted).max() < FLOAT_NOISE


def test_all_edges_together_are_the_whole_exchange():
    graph = graph_of()
    every = np.ones(len(graph.edges.pairs), np.bool_)
    assert torch.equal(graph.exchanged(~every), graph.base_RV)
    assert (graph.exchanged(every) - graph.source_RV).abs().max() < FLOAT_NOISE
    # So do those that reach the output.
    last = graph.edges.pairs[:, 1] == len(graph.edges.receivers) - 1
    assert (graph.exchanged(last) - graph.source_RV).abs().max() < FLOAT_NOISE
    scores = np.arange(len(every))[::-1] + 1.0
    kept = graph.kept(scores, [1, len(every)])
    assert kept[1] == len(graph.pairs.end_R) > kept[0]


def test_gradients_are_the_effects_of_small_exchanges():
    graph = graph_of()
    total = graph.preference(graph.source_RV) - graph.preference(graph.base_RV)
    attributed = graph.attributed(1)
    step = 1e-3
    graph.source = [
        torch.lerp(base, source, step) for base, source in zip(graph.base, graph.source, strict=True)
    ]
    small = []
    for edge in np.eye(len(attributed), dtype=np.bool_):
        changed = graph.preference(graph.exchanged(edge)) - graph.preference(graph.base_RV)
        small.append(float(changed / total / step))
    assert np.corrcoef(small, attributed)[0, 1] > 0.999
    assert np.abs(np.array(small) - attributed).max() < 0.02 * np.abs(attributed).max()


def test_minimal_pairs_differ_in_the_variable_alone():
    for variable in ("first", "top", "call", "aggregate"):
        table = counterfactuals(variable, 30, minimal=True)
        for row in table.iter_rows(named=True):
            assert len(row["base"]) == len(row["source"])
            assert row["base_token"] == row["source_token"]
            assert row["base_answer"] != row["source_answer"] == row["answer"]
            start = 5 if variable == "top" else 0
            for part in (slice(start), slice(row["base_token"] + 1, None)):
                assert row["base"][part] == row["source"][part]
            assert row["source_stacks"][row["source_token"]] != row["base_stacks"][row["base_token"]]
    with pytest.raises(InputError, match="difference: has no minimal pairs; first, top, call, aggregate"):
        counterfactuals("difference", 5, minimal=True)


def scores_of(model: Cadmus, score=1.0) -> pl.DataFrame:
    edges = pl.DataFrame(edges_of(model).named(), ["sender", "receiver"], orient="row")
    return edges.select(pl.lit("first").alias("variable"), pl.all(), score=pl.lit(score))


def test_scores_of_edges_are_judged_by_the_measured_effects(monkeypatch):
    monkeypatch.setattr("cadmus.labs.circuits.score.minimal_pairs_of", lambda model, _: graph.pairs)
    graph = graph_of()
    model = Cadmus(graph.model)
    named = scores_of(model).with_columns(score=pl.Series(-2 * graph.effects()[0]))
    (row,) = score_edges(model, named.sample(fraction=1, shuffle=True, seed=0)).iter_rows(named=True)
    assert row["correlation"] == pytest.approx(1)
    assert row["right"] == row["measured"] > row["random"]


def test_scores_that_do_not_fit_are_one_line(tmp_path):
    model = Cadmus(random_model())
    table = scores_of(model)
    first, other = table[:1], pl.lit("mlp 9").alias("receiver")
    for wrong, message in (
        (table[1:], "first: embedding → head 1.1 query: is missing; give each edge one score"),
        (pl.concat([table, first]), "first: embedding → head 1.1 query: is given twice"),
        (pl.concat([table, first.with_columns(other)]), "first: embedding → mlp 9: is no edge of this model"),
    ):
        with pytest.raises(InputError, match=message):
            score_edges(model, wrong)
    path = tmp_path / "edges.csv"
    for text, message in (
        ("variable,sender\nfirst,embedding\n", "no column 'receiver'"),
        ("variable,sender,receiver,score\nfirst,embedding,output,NaN\n", "score: not finite in row 0"),
        (
            "variable,sender,receiver,score\nlength,embedding,output,1\n",
            "variable: must be one of first, top",
        ),
        ("", "give a CSV or Parquet file"),
    ):
        path.write_text(text)
        with pytest.raises(InputError, match=message):
            read_edge_scores(path)


def test_pairs_that_the_model_gets_wrong_do_not_count():
    table = counterfactuals("first", 40, minimal=True)
    model = Cadmus(random_model())
    pairs = minimal_pairs_of(model, table)
    assert len(pairs.end_R) < 40
    right = model.next_logits(table["base"].to_list()).argmax(1)
    assert set(pairs.answer_R.tolist()) <= set(right.tolist())


def test_a_variable_without_pairs_is_next_to_one_with_pairs(monkeypatch):
    """A model may get all pairs of one variable wrong, and not of another."""
    graph = graph_of()
    pairs = iter([graph.pairs, Pairs(*(of_pairs[:0] for of_pairs in graph.pairs))])
    monkeypatch.setattr("cadmus.labs.circuits.graph.minimal_pairs_of", lambda *_: next(pairs))
    settings = {"circuit": {"programs": 12, "variables": ["first", "call"]}}
    subject = subject_of(Cadmus(graph.model), -9, 9, settings)
    results = circuit.measure(subject)
    by_variable = results.group_by("variable", maintain_order=True).agg(
        pl.col("programs").max(), pl.col("effect").null_count(), pl.len()
    )
    edges = len(graph.edges.pairs)
    assert by_variable.rows() == [("first", 12, 0, edges), ("call", 0, edges, edges)]
