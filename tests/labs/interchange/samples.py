"""Results of interchange, what the command tells, and a file that is forged."""

from pathlib import Path

import polars as pl
import torch
from safetensors.torch import save_file

from cadmus.labs.interchange.interchange import METHODS
from cadmus.labs.interchange.score import read_features


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


def write_features(path: Path) -> None:
    save_file({"layer.0": torch.eye(8), "layer.0.bias": torch.ones(8)}, path)


RESULTS = {"interchange": interchange}
COMMANDS = {"interchange": (7 * 2 * 3, 7, [*METHODS, "layer", "programs"])}
SETTINGS = {"interchange": "{programs: 10}"}
FORGED = {"features.safetensors": (write_features, read_features)}
