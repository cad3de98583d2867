"""Results of interchange, and what the command tells."""

import polars as pl

from cadmus.labs.interchange.interchange import METHODS


def interchange() -> pl.DataFrame:
    """Return results of a variable that is used, and of one without pairs that count."""
    shares = {"state": [0.0, 0.4, 1.0], "learned": [0.0, 0.6, 0.9], "random": [0.0, 0.1, 0.0]}
    rows = [
        (variable, layer, method, 8, programs, of_layers[layer] if programs else None)
        for variable, programs in (("first", 100), ("call", 0))
        for layer in range(3)
        for method, of_layers in shares.items()
    ]
    names = ["variable", "layer", "method", "directions", "programs", "accuracy"]
    results = pl.DataFrame(rows, schema=names, orient="row")
    low, high = (pl.col("accuracy") - 0.05).clip(0), (pl.col("accuracy") + 0.05).clip(upper_bound=1)
    return results.with_columns(low=low, high=high)


RESULTS = {"interchange": interchange}
COMMANDS = {"interchange": (7 * 2 * 3, 7, [*METHODS, "layer", "programs"])}
SETTINGS = {"interchange": "{programs: 10}"}
