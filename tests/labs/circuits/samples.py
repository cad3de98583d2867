"""Results of circuits, and what the command tells."""

import polars as pl

from cadmus.labs.circuits.circuit import EDGE_SCORES, STILL_RIGHT


def circuit() -> pl.DataFrame:
    """Return results of a variable with three edges, and of one without pairs that count."""
    edges = [("embedding", "mlp 1"), ("embedding", "output"), ("mlp 1", "output")]
    rows = [
        (variable, *edge, programs, *([(number + 1) / 4] * 4 if programs else [None] * 4))
        for variable, programs in (("first", 100), ("call", 0))
        for number, edge in enumerate(edges)
    ]
    names = ["variable", "sender", "receiver", "programs", *EDGE_SCORES]
    results = pl.DataFrame(rows, schema=names, orient="row")
    right = pl.when(pl.col("programs") > 0).then((100 - 60 * pl.col("effect")).cast(pl.Int64))
    return results.with_columns(right.alias(name) for name in STILL_RIGHT)


RESULTS = {"circuit": circuit}
# Variables; edges to the inputs of two heads, to the MLP and to the output.
COMMANDS = {
    "circuit": (2 * (6 * 1 + 3 + 4), 2, ["r of attributed", "r of integrated", "edges", *EDGE_SCORES])
}
SETTINGS = {"circuit": "{programs: 10, variables: [first, top]}"}
