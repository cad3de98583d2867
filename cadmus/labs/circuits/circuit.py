"""Circuits: which edges between the parts of a model carry a variable, measured by exchanging each.

Methods that find circuits are judged against one another, as nobody knows which edges matter. Here a pair of
programs differs in one known variable, the right answers are known, and the model is small enough to measure
every edge (:mod:`cadmus.labs.circuits.graph`). So an estimate by gradients is compared with what it
estimates, and each method by the circuits that it chooses: of all edges, the ones with the largest scores.
"""

from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import polars as pl

from cadmus.columns import COUNT, NUMBER, Column, one_of
from cadmus.config.evaluation import Local
from cadmus.evaluate.statistics.results import with_accuracy
from cadmus.experiments.experiment import Experiment, Figure, Subject, Summary
from cadmus.labs.circuits.settings import Circuit
from cadmus.tools import generator, progress, seed_of

if TYPE_CHECKING:
    from cadmus.labs.circuits.graph import Graph

EDGE_SCORES = {
    "effect": (
        "effect of an exchange of the edge on the preference for the other answer, as a fraction of what the "
        "whole source does"
    ),
    "attributed": "the effect estimated by gradients at the base",
    "integrated": "the effect estimated by gradients at five points between base and source",
    "random": "a random score of the edge",
}
"""Scores of the edges of a circuit, and what they are."""
_STILL_RIGHT = (
    "answers that stay right in the circuit of this edge and all of larger `{}`; null for most sizes"
)
STILL_RIGHT = tuple(f"{method}_right" for method in EDGE_SCORES)
"""Answers that stay right in the circuit of an edge and all with larger scores; null for most sizes."""
POINTS = 5
"""Between base and source, at which integrated gradients are taken."""
PART = Column(
    str,
    pattern=r"embedding|output|mlp \d{1,3}|head \d{1,3}\.\d{1,3}( query| key| value)?",
    form="a part of a model",
)
ENOUGH = 0.9
"""Of the answers, which the smallest circuit in the findings keeps."""


def measure(subject: Subject) -> pl.DataFrame:
    """Circuits: which edges of a model carry a variable of the VM.

    Each edge is exchanged alone, for pairs of programs that differ in one variable of the VM, and its effect
    on the answer is compared with estimates by gradients. The largest edges of each method make circuits, in
    which all other edges are exchanged.
    """
    from cadmus.evaluate.prompts.counterfactuals import counterfactuals
    from cadmus.labs.circuits.graph import Graph, edges_of, minimal_pairs_of

    config, model = subject.config, subject.model()
    settings = Circuit.below(config.evaluate)
    tables = []
    kinds = {
        "changed": pl.Int64,
        **dict.fromkeys(EDGE_SCORES, pl.Float64),
        **dict.fromkeys(STILL_RIGHT, pl.Int64),
    }
    for variable in progress("circuit", settings.variables):
        seed = seed_of(config.seed, "circuit", variable)
        table = counterfactuals(variable, settings.programs, seed, config.dataset, minimal=True)
        pairs = minimal_pairs_of(model, table)
        programs = len(pairs.end_R)
        # A model that gets no pair right has no effects.
        measured = _measured(Graph(model, pairs), seed) if programs else dict.fromkeys(kinds)
        edges = pl.DataFrame(edges_of(model).named(), ["sender", "receiver"], orient="row")
        columns = {"variable": variable, **edges.to_dict(), "programs": programs, **measured}
        tables.append(pl.DataFrame(columns, schema_overrides=kinds).select(*EXPERIMENT.columns))
    return pl.concat(tables)


def _measured(graph: "Graph", seed: int) -> dict[str, Any]:
    """Return the scores of the edges, and the answers that stay right in the circuits of each."""
    from cadmus.labs.circuits.graph import circuit_sizes

    effects, changed = graph.effects()
    random = generator(seed, "random").random(len(effects))
    estimates = [graph.attributed(points) for points in (1, POINTS)]
    columns: dict[str, Any] = {"changed": changed}
    sizes = circuit_sizes(len(effects))
    for method, name, scores in zip(EDGE_SCORES, STILL_RIGHT, (effects, *estimates, random), strict=True):
        right: list[int | None] = [None] * len(scores)
        smallest = np.argsort(-abs(scores), kind="stable")[np.array(sizes) - 1]
        for edge, count in zip(smallest.tolist(), graph.kept(scores, sizes), strict=True):
            right[edge] = count
        columns |= {method: scores, name: right}
    return columns


def accuracy_of_circuits(edges: pl.DataFrame) -> pl.DataFrame:
    """Compute which answers stay right in circuits, from the results of ``cadmus evaluate circuit``.

    Returns variable, method, edges, programs, correct, accuracy, low, high: 95% Wilson intervals. A variable
    without pairs has a row for each method all the same.
    """
    parts = []
    for method, right in zip(EDGE_SCORES, STILL_RIGHT, strict=True):
        size = pl.col(method).abs().rank("ordinal", descending=True).over("variable").cast(pl.Int64)
        part = edges.select(
            "variable", pl.lit(method).alias("method"), size.alias("edges"), "programs", correct=right
        )
        untested = (pl.col("programs") == 0) & (pl.int_range(pl.len()).over("variable") == 0)
        parts.append(part.filter(pl.col("correct").is_not_null() | untested).sort("variable", "edges"))
    return with_accuracy(pl.concat(parts))


def summarize(results: pl.DataFrame) -> Summary:
    """Return how well gradients estimate the effects, and how many edges are enough."""
    table = results.group_by("variable", maintain_order=True).agg(
        *(pl.corr("effect", name).fill_nan(None).alias(f"r of {name}") for name in list(EDGE_SCORES)[1:3]),
        pl.len().cast(pl.Int64).alias("edges"),
    )
    enough = accuracy_of_circuits(results).filter(pl.col("accuracy") >= ENOUGH)
    for method in EDGE_SCORES:
        least = enough.filter(method=method).group_by("variable").agg(pl.col("edges").min().alias(method))
        table = table.join(least, "variable", "left", maintain_order="left")
    return Summary(
        "correlation r of each estimate with the measured effects of all edges; and how many edges each\n"
        f"method needs for {ENOUGH:.0%} of the answers",
        table,
    )


EXPERIMENT = Experiment(
    measure=measure,
    seconds=54,
    needs="hidden states",
    attention="causal",
    columns={
        "variable": one_of(get_args(Local)),
        "sender": PART.means(
            "part of the model that writes: the embedding, a head by block and number, or an MLP by block"
        ),
        "receiver": PART.means(
            "part that reads it: the query, key or value of a head, an MLP, or the output"
        ),
        "programs": COUNT,
        "changed": COUNT.or_null().means("answers that an exchange of the edge changes to the other one"),
        **{name: NUMBER.or_null().means(text) for name, text in EDGE_SCORES.items()},
        **{f"{name}_right": COUNT.or_null().means(_STILL_RIGHT.format(name)) for name in EDGE_SCORES},
    },
    rules={
        f"{name}: must be at most programs": pl.col(name) <= pl.col("programs")
        for name in ("changed", *STILL_RIGHT)
    },
    summary=summarize,
    figures=(
        Figure(
            "circuit",
            "Circuits. Above: how many answers stay right if a model keeps only the edges with the largest "
            "scores and reads all others from a program that differs in one variable; scores are measured by "
            "exchanging each edge alone, estimated by gradients at the program or at five points on the way "
            "to the other one, or random. Below: each edge, its estimate against its measured effect, both "
            "as fractions of what the whole other program does.",
            module="cadmus.labs.circuits.figure",
        ),
    ),
)
