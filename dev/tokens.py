"""Where the tokens and FLOPs of a training go, and how much of the loss it can still reduce.

python -m dev.tokens results/quick --better results/laptop --output docs/results/tokens_quick.csv

One row per template. ``cadmus evaluate loss`` measures the loss of a completion, in nats. Its floor is exact
for induction. For the other templates it is the loss of a better model: the true one is at most as high.
Without a better model it is 0 where the prompt determines the answer, and unknown elsewhere.
"""

import argparse
from pathlib import Path
from typing import Any

import polars as pl

from cadmus.config import load_config
from cadmus.experiments import get
from cadmus.model.flops import causal_pairs, training_flops
from cadmus.store import read_results, write_text

DETERMINED = ("basic_math", "less_greater", "basic_sequences", "advanced_sequences", "apply_labels")
"""Templates whose prompts have one answer."""


def tokens(directory: Path, better: Path | None) -> pl.DataFrame:
    """Return fractions of tokens, FLOPs and reducible loss by template, from the results of runs."""
    config = load_config(directory / "config.yaml", {})
    rows = []
    floors: dict[Any, Any] = dict.fromkeys(DETERMINED, 0.0)
    if better is not None:
        floors = {row["template"]: row["loss"] for row in _losses(better)}
    for row in _losses(directory):
        floor = row["floor"] if row["floor"] is not None else floors.get(row["template"])
        count = getattr(config.dataset.templates, row["template"]).train
        flops = training_flops(config.model, row["program"], row["pairs"])
        rows.append(
            {
                "template": row["template"],
                "programs": count,
                "tokens": count * row["program"],
                "flops": count * flops,
                "prompt_fraction": 1 - row["completion"] / row["program"],
                "loss": row["loss"],
                "floor": floor,
                "reducible": None if floor is None else count * max(0.0, row["loss"] - floor),
            }
        )
    fractions = pl.col("tokens", "flops", "reducible") / pl.col("tokens", "flops", "reducible").sum()
    return pl.DataFrame(rows).with_columns(fractions)


def _losses(directory: Path) -> list[dict[str, Any]]:
    """Return per template the mean tokens of programs and completions, pairs that attend, loss and floor."""
    losses, _ = read_results(directory / "experiments" / "loss.parquet", get("loss").table)
    length = pl.col("program").str.len_chars() + 1
    pairs = length.map_batches(lambda lengths: pl.Series(causal_pairs(lengths.to_numpy())))
    loss, floor = (pl.col(name) * pl.col("tokens") for name in ("loss", "floor"))
    # One without a floor for all its programs has none.
    known = pl.when(pl.col("floor").is_not_null().all()).then(floor.mean())
    means = [length.mean(), pl.col("tokens").mean().alias("completion"), pairs.mean().alias("pairs")]
    grouped = losses.group_by("template", maintain_order=True)
    return grouped.agg(*means, loss.mean(), known.alias("floor")).to_dicts()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("directory", type=Path, help="results of a run")
    options.add_argument("--better", type=Path, help="results of a better model, for the floor")
    options.add_argument("--output", type=Path, help="CSV file; the terminal by default")
    given = options.parse_args()
    text = tokens(given.directory, given.better).write_csv(float_precision=4)
    write_text(given.output, text) if given.output else print(text)


if __name__ == "__main__":
    main()
