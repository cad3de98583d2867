"""A score for circuits: any method's scores of the edges of a model, against the measured effects.

A method that finds circuits, such as attribution patching or edge pruning, gives each edge a score. Here
every edge is measured (:mod:`cadmus.labs.circuits.graph`). So scores are judged by how well they agree with
the effects, and by the circuits of their largest edges.
"""

from pathlib import Path

import numpy as np
import polars as pl
from scipy.stats import spearmanr

from cadmus.columns import NUMBER, TEXT, Table, one_of
from cadmus.config import Dataset
from cadmus.errors import InputError, reading
from cadmus.evaluate.prompts.counterfactuals import VARIABLES, counterfactuals
from cadmus.labs.circuits.graph import Graph, circuit_sizes, edges_of, minimal_pairs_of
from cadmus.model.inference import Cadmus
from cadmus.plugins import Scoring
from cadmus.store import check_readable
from cadmus.tools import generator, progress, seed_of

COLUMNS = ("correlation", "right", "measured", "random")
"""Rank correlation of the absolute scores and the absolute effects; mean fraction of answers that stay right
in the circuits of the largest scores, at sizes in equal steps of the logarithm; and in those of the largest
effects and of random edges."""
LOCAL = tuple(name for name, variable in VARIABLES.items() if variable.start is not None)
"""Variables with minimal pairs."""
_TABLE = Table({"variable": one_of(LOCAL), "sender": TEXT, "receiver": TEXT, "score": NUMBER})
_FORM = "give a CSV or Parquet file with the columns variable, sender, receiver, score"


def read_edge_scores(path: Path) -> pl.DataFrame:
    """Read a table with the columns variable, sender, receiver and score."""
    check_readable(path)
    with reading(path, _FORM):
        table = pl.read_parquet(path) if path.suffix == ".parquet" else pl.read_csv(path)
    try:
        return _TABLE.checked(table)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def score_edges(
    model: Cadmus, scores: pl.DataFrame, programs: int = 200, seed: int = 0, dataset: Dataset | None = None
) -> pl.DataFrame:
    """Score the edges of each variable; see :data:`COLUMNS`.

    ``scores`` has one row for each edge of a variable, with the columns variable, sender, receiver and score.
    """
    named = edges_of(model).named()
    order = pl.DataFrame(named, {"sender": pl.String, "receiver": pl.String}, orient="row")
    by_variable = {
        str(variable): _ordered(part, order, str(variable))
        for (variable,), part in scores.group_by(["variable"], maintain_order=True)
    }
    rows = []
    for variable, own in progress("score", list(by_variable.items())):
        of_use = seed_of(seed, "score edges", variable)
        table = counterfactuals(variable, programs, of_use, dataset, minimal=True)
        pairs = minimal_pairs_of(model, table)
        if not len(pairs.end_R):
            raise InputError(
                f"{variable}: the model answers none of {programs} pairs; score another variable"
            )
        graph = Graph(model, pairs)
        effects, sizes = graph.effects()[0], circuit_sizes(len(named))
        random = generator(of_use, "random").random(len(named))
        right = [np.mean(graph.kept(each, sizes)) / len(pairs.end_R) for each in (own, effects, random)]
        correlation = spearmanr(abs(own), abs(effects)).statistic
        rows.append((variable, len(pairs.end_R), len(named), float(correlation), *right))
    kinds = {"variable": pl.String, "programs": pl.Int64, "edges": pl.Int64}
    return pl.DataFrame(rows, {**kinds, **dict.fromkeys(COLUMNS, pl.Float64)}, orient="row")


def _ordered(scores: pl.DataFrame, order: pl.DataFrame, variable: str) -> np.ndarray:
    """Return the scores of a variable in the order of the edges: float64, shape (E,)."""
    keys = ["sender", "receiver"]
    for problem, rows in (
        ("given twice", scores.filter(pl.struct(keys).is_duplicated())),
        ("no edge of this model", scores.join(order, keys, "anti")),
        ("missing", order.join(scores, keys, "anti")),
    ):
        if len(rows):
            sender, receiver = rows.select(keys).row(0)
            raise InputError(f"{variable}: {sender} → {receiver}: is {problem}; give each edge one score")
    return order.join(scores, keys, "left", maintain_order="left")["score"].to_numpy().astype(np.float64)


def _score(
    model: Cadmus, scores: pl.DataFrame, programs: int, directions: int, seed: int, dataset: Dataset
) -> pl.DataFrame:
    # An edge has no direction.
    return score_edges(model, scores, programs, seed, dataset)


SCORING = Scoring(read_edge_scores, _score, COLUMNS, LOCAL)
