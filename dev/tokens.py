"""Tokens, FLOPs and reducible loss of a training by template.

python -m dev.tokens results/quick --better results/laptop --output docs/results/tokens_quick.csv

One row per template. ``cadmus evaluate loss`` measures the loss of a completion, in nats. Its floor is exact
for induction. For the other templates it is the loss of a better model: the true one is at most as high.
Without a better model it is 0 where the prompt determines the answer, and unknown elsewhere.
"""

from pathlib import Path

import polars as pl

from cadmus.config import load_config
from cadmus.experiments import get
from cadmus.model.flops import causal_pairs, training_flops
from cadmus.store import read_results, write_text
from dev import measure

DETERMINED = ["basic_math", "less_greater", "basic_sequences", "advanced_sequences", "apply_labels"]
"""Templates whose prompts have one answer."""


def tokens(directory: Path, better: Path | None) -> pl.DataFrame:
    """Return fractions of tokens, FLOPs and reducible loss by template, from the results of runs."""
    config, means = load_config(directory / "config.yaml", {}), losses(directory)
    counts = [getattr(config.dataset.templates, name).train for name in means["template"]]
    flops = [training_flops(config.model, *row) for row in means.select("program", "pairs").iter_rows()]
    if better is None:
        other = pl.when(pl.col("template").is_in(DETERMINED)).then(0.0).otherwise(None)
    else:
        other = pl.col("template").replace_strict(dict(losses(better).select("template", "loss").iter_rows()))
    programs, floor = pl.Series(counts), pl.coalesce("floor", other)
    table = means.select(
        "template",
        programs.alias("programs"),
        tokens=programs * pl.col("program"),
        flops=programs * pl.Series(flops),
        prompt_fraction=1 - pl.col("completion") / pl.col("program"),
        loss="loss",
        floor=floor,
        reducible=programs * (pl.col("loss") - floor).clip(0),
    )
    fractions = pl.col("tokens", "flops", "reducible")
    return table.with_columns(fractions / fractions.sum())


def losses(directory: Path) -> pl.DataFrame:
    """Return per template the mean tokens of programs and completions, pairs that attend, loss and floor."""
    found, _ = read_results(directory / "experiments" / "loss.parquet", get("loss").table)
    length = found["program"].str.len_chars()
    found = found.with_columns(program=length, pairs=pl.Series(causal_pairs(length.to_numpy())))
    grouped = found.group_by("template", maintain_order=True)
    loss, floor = (pl.col(name) * pl.col("tokens") for name in ("loss", "floor"))
    return grouped.agg(
        pl.col("program", "pairs").mean(), loss.mean(), floor.mean(), completion=pl.mean("tokens")
    )


if __name__ == "__main__":
    options = measure.parser(__doc__)
    options.add_argument("directory", type=Path, help="results of a run")
    options.add_argument("--better", type=Path, help="results of a better model, for the floor")
    options.add_argument("--output", type=Path, help="CSV file", required=True)
    given = options.parse_args()
    write_text(given.output, tokens(given.directory, given.better).write_csv(float_precision=4))
